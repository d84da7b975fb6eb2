use adjutant_script::Script;
use serde_json::{Value, json};

use crate::dialects::weakincentives::dispatcher::{Dispatcher, ad_hoc};
use crate::dialects::weakincentives::over_every_wire;
use crate::support::fleet::Fleet;
use crate::support::tool_client::Transport;

over_every_wire! {
    row_4_1_to_4_4_an_invalid_field_is_refused_by_name_and_nothing_is_created,
    row_4_5_a_prompt_that_is_not_in_the_registry_is_refused,
    row_4_6_a_snapshot_of_another_version_aborts_before_anything_is_created,
    row_4_10_an_impossible_dispatch_is_a_message_without_a_result,
}

async fn row_4_1_to_4_4_an_invalid_field_is_refused_by_name_and_nothing_is_created(
    transport: Transport,
) {
    let dispatcher = Dispatcher::new(transport, Script::new()).await;
    for (field, value) in [
        ("mode", json!(null)),
        ("mode", json!("batch")),
        ("prompt_ns", json!(null)),
        ("prompt_ns", json!("")),
        ("prompt_key", json!(7)),
        ("prompt_key", json!(" ")),
        ("instructions", json!(null)),
        ("instructions", json!(" \n ")),
        ("instructions", json!("x".repeat(2_001))),
        ("instructions", json!("na\u{ef}ve")),
        ("instructions", json!(["Read."])),
        ("expected_artifacts", json!("report.md")),
        ("expected_artifacts", json!(["x".repeat(161)])),
        ("expected_artifacts", json!([""])),
        ("expected_artifacts", json!(["\u{e9}"])),
        ("plan_step_id", json!(3)),
        ("snapshot_version", json!(1)),
        ("task_id", json!({})),
        ("wait", json!(true)),
    ] {
        let mut more = json!({});
        more[field] = value;
        let message = dispatcher.refused(ad_hoc(more), "ToolValidationError").await;
        assert!(message.starts_with(field), "{message}");
    }
    let message =
        dispatcher.refused(ad_hoc(json!({"mode": "plan_step"})), "ToolValidationError").await;
    assert_eq!(message, "plan_step_id: is required when mode is plan_step");
}

async fn row_4_5_a_prompt_that_is_not_in_the_registry_is_refused(transport: Transport) {
    let dispatcher = Dispatcher::new(transport, Script::new()).await;
    for (ns, key) in [
        ("research", "none"),
        ("none", "logs"),
        ("tests/subagent", "child"),
        ("x", &"y".repeat(64)),
    ] {
        let unknown = json!({"prompt_ns": ns, "prompt_key": key});
        let message = dispatcher.refused(ad_hoc(unknown), "ToolValidationError").await;
        assert_eq!(message, format!("There is no prompt {key:?} in {ns:?}"));
    }
    let message = dispatcher.refused(json!({"task_id": "t_09"}), "TASK_NOT_FOUND").await;
    assert_eq!(message, "Task not found: t_09");
}

async fn row_4_6_a_snapshot_of_another_version_aborts_before_anything_is_created(
    transport: Transport,
) {
    let dispatcher = Dispatcher::new(transport, Script::new()).await;
    for version in ["2", "", "1.0"] {
        let message = dispatcher
            .refused(ad_hoc(json!({"snapshot_version": version})), "ToolValidationError")
            .await;
        assert!(message.starts_with("snapshot_version: "), "{message}");
    }
    assert_eq!(
        dispatcher.fleet.world.count("select count(*) from context_overlay where is_called").await,
        0
    );
}

async fn row_4_10_an_impossible_dispatch_is_a_message_without_a_result(transport: Transport) {
    let dispatcher = Dispatcher::new(transport, Script::new()).await;
    dispatcher.fleet.world.store.archive_session(dispatcher.session).await.unwrap();
    dispatcher.refused(ad_hoc(json!({})), "SESSION_ARCHIVED").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn row_g_36_only_errors_before_the_dispatch_are_http_errors() {
    let fleet = Fleet::new(Script::new()).await;
    let server = fleet.server();
    let path = |session: &str, tool: &str| {
        format!("/v1/sessions/{session}/tools/{tool}?dialect=weakincentives")
    };
    let body = ad_hoc(json!({})).to_string();
    server.post("/v1/sessions", r#"{"session_id": "there"}"#).await;
    for (path, body, status, code) in [
        (path("none", "dispatch_subagent"), body.as_str(), 404, "SESSION_NOT_FOUND"),
        (path("there", "subagent"), "{}", 404, "TOOL_NOT_FOUND"),
        (path("there", "dispatch_subagent"), "{", 400, "INVALID_ARGUMENT"),
    ] {
        let answer = server.post(&path, body).await;
        assert_eq!((answer.status, &answer.json()["error"]), (status, &json!(code)), "{path}");
    }
    let answer = server.post(&path("there", "dispatch_subagent"), "{}").await;
    assert_eq!((answer.status, &answer.json()["error"]), (200, &json!("ToolValidationError")));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_dialect_has_one_tool_in_the_form_of_each_vendor() {
    let fleet = Fleet::new(Script::new()).await;
    let server = fleet.server();
    for (format, schema) in [
        ("anthropic", "/input_schema"),
        ("openai", "/function/parameters"),
        ("mcp", "/inputSchema"),
    ] {
        let tools =
            server.get(&format!("/v1/tools?dialect=weakincentives&format={format}")).await.json();
        let [tool] = &tools.as_array().unwrap()[..] else { panic!("{tools}") };
        let name = tool.pointer("/name").or_else(|| tool.pointer("/function/name"));
        assert_eq!(name, Some(&json!("dispatch_subagent")));
        let schema = tool.pointer(schema).unwrap();
        assert_eq!(schema["required"], json!(["mode", "prompt_ns", "prompt_key", "instructions"]));
        let mut fields: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
        fields.sort();
        let expected: Vec<Value> = fields.iter().map(|field| json!(field)).collect();
        assert_eq!(
            Value::Array(expected),
            json!([
                "expected_artifacts",
                "instructions",
                "mode",
                "plan_step_id",
                "prompt_key",
                "prompt_ns",
                "snapshot_version",
                "task_id"
            ])
        );
    }
}
