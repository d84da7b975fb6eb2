//! `subagent` in the foreground and in the background, and its refusals.

use std::sync::Arc;

use adjutant_agent::{AgentConfig, FailureKind};
use adjutant_server::Dialect;
use serde_json::{Value, json};

use crate::dialects::ecs::orchestrator::{CONFIG, EcsOrchestrator};
use crate::support::proxy::Proxy;
use crate::support::test_server::TestServer;
use crate::support::tool_client::{ToolClient, Transport};
use crate::support::world::{World, until};

async fn claimed(orchestrator: &EcsOrchestrator) -> adjutant_store::Claim {
    until("the task can be claimed", async || {
        orchestrator.world.count("select count(*) from queue").await == 1
    })
    .await;
    orchestrator.claim().await
}

#[tokio::test(flavor = "multi_thread")]
async fn row_2_3_a_call_in_the_foreground_answers_the_final_text() {
    let orchestrator = EcsOrchestrator::new().await;
    let call =
        orchestrator.start_call("subagent", json!({"category": "writer", "prompt": "Write."}));
    let claim = claimed(&orchestrator).await;
    assert_eq!(
        (claim.assignment.agent.as_str(), claim.assignment.text.as_str()),
        ("writer", "Write.")
    );
    claim.lease.complete("Written.".to_owned(), None).write().await.unwrap();
    assert_eq!(call.await.unwrap(), json!("Written."));
    let notifications = orchestrator.call("subagent_wait", json!({"timeout": 0})).await;
    assert!(
        notifications.as_str().unwrap().starts_with("There is nothing to wait for"),
        "who was answered is not told again: {notifications}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_2_25_and_2_31_a_foreground_call_without_a_text_answers_with_the_error() {
    let orchestrator = EcsOrchestrator::new().await;
    for (failure, error, said) in [
        (
            FailureKind::MaxTurns,
            "Max turns exceeded",
            "Error: Subagent 'writer' failed: Max turns exceeded",
        ),
        (FailureKind::Timeout, "It ran for longer", "Error: Subagent timeout after 1.5s"),
    ] {
        let call = orchestrator.start_call(
            "subagent",
            json!({"category": "writer", "prompt": "Write.", "timeout": 1.5}),
        );
        claimed(&orchestrator)
            .await
            .lease
            .fail(failure, error.to_owned(), None)
            .write()
            .await
            .unwrap();
        assert_eq!(call.await.unwrap(), json!(said));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_over_the_longest_wait_returns_a_handle_and_continues() {
    let orchestrator = EcsOrchestrator::with("[dialects]\nlongest_wait_s = 0.3\n").await;
    let handle =
        orchestrator.call("subagent", json!({"category": "writer", "prompt": "Write."})).await;
    assert_eq!(
        (&handle["session_id"], &handle["lifecycle_status"]),
        (&json!("t_01"), &json!("queued"))
    );
    assert!(
        handle["message"].as_str().unwrap().contains("subagent_result(session_id=\"t_01\")"),
        "{handle}"
    );
    orchestrator.claim().await.lease.complete("Written.".to_owned(), None).write().await.unwrap();
    assert_eq!(orchestrator.result("t_01").await["inline_content"], "Written.");
    let notifications = orchestrator.call("subagent_wait", json!({})).await;
    assert!(
        notifications.as_str().unwrap().contains("- t_01 succeeded."),
        "it has become a background session: {notifications}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn row_2_4_a_background_call_answers_at_once_that_it_is_queued() {
    let orchestrator = EcsOrchestrator::new().await;
    let launched = orchestrator
        .call(
            "subagent",
            json!({"category": "researcher", "prompt": "Look.", "background": true, "timeout": 30.0}),
        )
        .await;
    assert_eq!(
        launched,
        json!({"session_id": "t_01", "status": "queued", "category": "researcher", "lifecycle_status": "queued",
            "timeout": 30.0})
    );
}

/// Calls in a row, so many that a few queries of the server's own do not matter.
const CALLS: u64 = 40;

/// The number of queries for [`CALLS`] calls with these arguments, each with a key of its own.
async fn queries(proxy: &Proxy, client: &ToolClient, arguments: &Value) -> u64 {
    let call = async |key: String| {
        client.with_key(&key).delegate(arguments.clone()).await;
    };
    // The connections are open, and the statements prepared.
    for number in 0..CALLS {
        call(format!("{:?} first {number}", client.dialect)).await;
    }
    let before = proxy.sent();
    for number in 0..CALLS {
        call(format!("{:?} second {number}", client.dialect)).await;
    }
    proxy.sent() - before
}

#[tokio::test(flavor = "multi_thread")]
async fn row_2_4_a_background_call_costs_as_many_queries_as_a_spawn_of_spec() {
    let world = World::new().await;
    let proxy = Proxy::before(&world).await;
    let server = Arc::new(TestServer::at(&proxy.url(), CONFIG));
    server.post("/v1/sessions", r#"{"session_id": "s"}"#).await.ok(201);
    let client = async |dialect| {
        ToolClient::connect(server.clone(), Transport::Http, dialect, None, "s").await
    };
    let spawn = json!({"action": "spawn", "agent": "writer", "task": "Write.", "queue": true});
    let spawns = queries(&proxy, &client(Dialect::Spec).await, &spawn).await;
    let launch = json!({"category": "writer", "prompt": "Write.", "background": true});
    let launches = queries(&proxy, &client(Dialect::Ecs).await, &launch).await;
    assert!(launches < spawns + CALLS / 2, "{launches} queries for launches, {spawns} for spawns");
    assert_eq!(world.count("select count(*) from task").await, 160, "each call has spawned");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_2_5_to_2_8_sessions_queue_in_the_order_of_their_launch_and_are_never_refused() {
    let orchestrator = EcsOrchestrator::new().await;
    for _ in 0..8 {
        orchestrator.launch("writer").await;
    }
    let position =
        async |session: &str| orchestrator.status(session).await["queue_position"].as_i64();
    assert_eq!(position("t_01").await, Some(0));
    assert_eq!(position("t_02").await, Some(1));
    assert_eq!(position("t_08").await, Some(7));
    let first = orchestrator.claim().await;
    assert_eq!(first.assignment.number.to_string(), "t_01");
    let running = orchestrator.status("t_01").await;
    assert_eq!(
        (&running["lifecycle_status"], running.get("queue_position")),
        (&json!("running"), None)
    );
    first.lease.complete("done".to_owned(), None).write().await.unwrap();
    for number in 2..=8 {
        let claim = orchestrator.claim().await;
        assert_eq!(claim.assignment.number.to_string(), format!("t_{number:02}"));
        claim.lease.complete("done".to_owned(), None).write().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn row_g_3_a_launch_beyond_the_sessions_queue_is_an_error_string() {
    let orchestrator = EcsOrchestrator::new().await;
    orchestrator
        .server
        .post("/v1/sessions", r#"{"session_id": "small", "max_queued": 1}"#)
        .await
        .ok(201);
    let body = json!({"category": "writer", "prompt": "x", "background": true}).to_string();
    let path = "/v1/sessions/small/tools/subagent?dialect=ecs";
    orchestrator.server.post(path, &body).await.ok(200);
    let refused = orchestrator.server.post(path, &body).await.ok(200);
    assert!(
        refused.as_str().unwrap().starts_with("Error: The session has 1 unfinished tasks"),
        "{refused}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn row_2_25_a_timeout_is_the_calls_the_agents_or_the_default() {
    let orchestrator = EcsOrchestrator::with("[dialects.ecs]\ndefault_timeout = 7\n").await;
    for (category, timeout, expected) in [
        ("researcher", json!(3), json!(3.0)),
        ("researcher", Value::Null, json!(7.0)),
        ("writer", Value::Null, json!(20.0)),
        ("writer", json!(0.5), json!(0.5)),
    ] {
        let arguments =
            json!({"category": category, "prompt": "x", "background": true, "timeout": timeout});
        let launched = orchestrator.call("subagent", arguments).await;
        assert_eq!(launched["timeout"], expected, "{category} {timeout}");
    }
    let without = EcsOrchestrator::new().await;
    let launched = without
        .call("subagent", json!({"category": "researcher", "prompt": "x", "background": true}))
        .await;
    assert_eq!(launched.get("timeout"), None, "no limit applies");
}

#[tokio::test(flavor = "multi_thread")]
async fn row_2_29_an_unknown_category_is_an_error_string() {
    let orchestrator = EcsOrchestrator::new().await;
    for category in ["nobody", "Security Reviewer", "é", "x\n"] {
        let said =
            orchestrator.call("subagent", json!({"category": category, "prompt": "x"})).await;
        assert_eq!(said, json!(format!("Error: Unknown subagent '{category}'")));
    }
    assert_eq!(orchestrator.world.count("select count(*) from task").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn row_2_28_an_unknown_category_creates_an_agent_where_allowed() {
    let more =
        "[free_form]\nenabled = true\nsystem_prompt = 'You are ${_category}!'\nmax_turns = 3\n";
    let orchestrator = EcsOrchestrator::with(more).await;
    orchestrator
        .server
        .request(
            "PATCH",
            "/v1/sessions/s",
            &["Content-Type: application/json"],
            r#"{"model": "main"}"#,
        )
        .await
        .ok(200);
    let session = orchestrator.launch("security-reviewer").await;
    let config = orchestrator.config(&session).await;
    assert_eq!(
        (&config["system_prompt"], &config["model"], &config["max_turns"]),
        (&json!("You are security-reviewer!"), &json!("main"), &json!(3))
    );
    assert_eq!(orchestrator.status(&session).await["category"], "security-reviewer");
    let known = orchestrator.launch("writer").await;
    assert_eq!(
        orchestrator.config(&known).await["system_prompt"],
        "You write.",
        "registered names win"
    );
    let said = orchestrator
        .call("subagent", json!({"category": "Security Reviewer", "prompt": "x"}))
        .await;
    assert_eq!(
        said,
        json!("Error: Unknown subagent 'Security Reviewer'"),
        "what is no name makes up nobody"
    );
    // The same in `spec`.
    let body = json!({"action": "spawn", "agent": "poet", "task": "Rhyme."}).to_string();
    let spawned = orchestrator.server.post("/v1/sessions/s/tools/subagent", &body).await.ok(200);
    assert_eq!(
        orchestrator.config(spawned["task_id"].as_str().unwrap()).await["system_prompt"],
        "You are poet!"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn row_2_30_wrong_arguments_are_refused_before_anything_is_done() {
    let orchestrator = EcsOrchestrator::new().await;
    for (tool, arguments, field) in [
        ("subagent", json!({"category": "", "prompt": "x"}), "category"),
        ("subagent", json!({"category": "writer", "prompt": " "}), "prompt"),
        ("subagent", json!({"category": "writer"}), "prompt"),
        (
            "subagent",
            json!({"category": "writer", "prompt": "x", "load_skills": "sql"}),
            "load_skills",
        ),
        ("subagent", json!({"category": "writer", "prompt": "x", "timeout": 0}), "timeout"),
        ("subagent", json!({"category": "writer", "prompt": "x", "action": "spawn"}), "action"),
        ("subagent_result", json!({}), "session_id"),
        ("subagent_wait", json!({"session_ids": "t_01"}), "session_ids"),
        ("subagent_cancel", json!({"session_id": 1}), "session_id"),
        ("subagent_status", json!([]), "arguments"),
    ] {
        let message = orchestrator.raw(tool, &arguments).await.refused(400, "INVALID_ARGUMENT");
        assert!(message.starts_with(&format!("{field}: ")), "{tool} {arguments}: {message}");
    }
    orchestrator
        .raw("shared_context", &json!({"action": "list_keys"}))
        .await
        .refused(404, "TOOL_NOT_FOUND");
    assert_eq!(orchestrator.world.count("select count(*) from task").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn row_2_32_skills_of_the_call_follow_those_of_the_agent_and_change_no_other_task() {
    let orchestrator = EcsOrchestrator::new().await;
    let load = json!({"category": "researcher", "prompt": "x", "background": true,
        "load_skills": ["sql", "web-search", "cooking"]});
    let launched = orchestrator.call("subagent", load).await;
    assert_eq!(
        launched["missing_skills"],
        json!(["cooking"]),
        "what nobody has is gone without, and said"
    );
    let agent_config: AgentConfig =
        serde_json::from_value(orchestrator.config("t_01").await).unwrap();
    let agent_config = agent_config.resolve().unwrap().config;
    assert_eq!(agent_config.tools, ["fetch", "shared_context"]);
    let at = |text: &str| {
        agent_config
            .system_prompt
            .find(text)
            .unwrap_or_else(|| panic!("{text}: {}", agent_config.system_prompt))
    };
    assert!(at("### web-search") < at("### sql"), "{}", agent_config.system_prompt);
    assert_eq!(agent_config.system_prompt.matches("Search twice.").count(), 1);
    orchestrator.launch("researcher").await;
    assert_eq!(
        orchestrator.config("t_02").await["skills"].as_array().unwrap().len(),
        1,
        "the registry is as it was"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn row_2_33_an_error_policy_refuses_before_anything_is_created() {
    let orchestrator = EcsOrchestrator::new().await;
    let said = orchestrator.call("subagent", json!({"category": "strict", "prompt": "x"})).await;
    assert_eq!(said, json!("Error: Missing skill: nothing of the session provides 'fly'"));
    let load = json!({"category": "strict", "prompt": "x", "load_skills": ["cooking"]});
    let said = orchestrator.call("subagent", load).await;
    assert_eq!(said, json!("Error: load_skills: Missing skill 'cooking'"));
    assert_eq!(orchestrator.world.count("select count(*) from task").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_may_be_longer_than_our_own_dialect_takes() {
    let orchestrator = EcsOrchestrator::new().await;
    let arguments = json!({"category": "writer", "prompt": "é".repeat(20_000), "background": true});
    assert_eq!(orchestrator.call("subagent", arguments).await["session_id"], "t_01");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_key_launches_once() {
    let orchestrator = EcsOrchestrator::new().await;
    let body = json!({"category": "writer", "prompt": "x", "background": true}).to_string();
    let headers = ["Content-Type: application/json", "Idempotency-Key: k"];
    for _ in 0..2 {
        let path = "/v1/sessions/s/tools/subagent?dialect=ecs";
        let launched = orchestrator.server.request("POST", path, &headers, &body).await.ok(200);
        assert_eq!(launched["session_id"], "t_01");
    }
    assert_eq!(orchestrator.world.count("select count(*) from task").await, 1);
}
