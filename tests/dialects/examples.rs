//! The sources' own published examples, as they are written there, against a live server, a worker
//! and a scripted model.

use std::sync::Arc;

use adjutant_script::{RecordedRequest, Script, Usage, When, text, tool_call};
use adjutant_server::Dialect;
use serde_json::{Value, json};

use crate::dialects::over_both_wires;
use crate::support::blocking_orchestrator::SESSION;
use crate::support::fleet::{Fleet, model_config};
use crate::support::test_server::TestServer;
use crate::support::tool_client::{ToolClient, Transport};

struct Setup {
    fleet: Fleet,
    server: Arc<TestServer>,
    _worker: crate::support::worker_process::WorkerProcess,
}

/// Tools with the names of the sources. They have no server, and their calls fail.
fn tools(names: &[&str]) -> String {
    let one = |name: &&str| {
        format!(
            "[tools.http.{name}]\ndescription = \"{name}\"\nurl = \"http://127.0.0.1:9/\"\nallow_private = true\n"
        )
    };
    names.iter().map(one).collect()
}

impl Setup {
    async fn of(script: Script, names: &[&str]) -> Self {
        let fleet = Fleet::with(script, |_| tools(names)).await;
        let model = model_config("openai", "openai", &fleet.model, "");
        let server =
            Arc::new(TestServer::of(&fleet.world, &format!("default_model = \"openai\"\n{model}")));
        server.post("/v1/sessions", &json!({"session_id": SESSION}).to_string()).await.ok(201);
        let worker = fleet.worker();
        Self { fleet, server, _worker: worker }
    }

    async fn call(&self, dialect: Dialect, transport: Transport, arguments: Value) -> Value {
        ToolClient::connect(self.server.clone(), transport, dialect, None, SESSION)
            .await
            .delegate(arguments)
            .await
    }
}

fn body(request: &RecordedRequest) -> &Value {
    request.body.as_deref().unwrap()
}

const SUMMARY: &str = "Create an executive summary with sections: Breakthroughs, Technical Details, Commercial Impact, Future Outlook";

async fn the_complete_example_of_xzatoma_has_the_documented_shape(transport: Transport) {
    let usage = |output_tokens| Usage { input_tokens: 1_000, output_tokens, ..Usage::default() };
    let script = Script::new()
        .on(When::assignment("Research quantum computing"))
        .then(tool_call("lookup", json!({"word": "qubit"})).with_usage(usage(100)))
        .then(text("Everything that was found.").with_usage(usage(50)))
        .then(text("Quantum Computing 2024 Breakthroughs:\n\nKey Advances").with_usage(usage(50)));
    let setup = Setup::of(script, &["grep"]).await;
    let input = json!({
        "label": "research_quantum_computing",
        "task_prompt": "Research quantum computing breakthroughs in 2024. Focus on: new algorithms, hardware improvements, and companies leading the field.",
        "summary_prompt": SUMMARY,
        "allowed_tools": ["fetch", "grep"],
        "max_turns": 8
    });
    let answer = setup.call(Dialect::Xzatoma, transport, input).await;
    let expected = json!({
        "success": true,
        "output": "Quantum Computing 2024 Breakthroughs:\n\nKey Advances",
        "error": null,
        "metadata": {
            "subagent_label": "research_quantum_computing",
            "recursion_depth": "1",
            "completion_status": "complete",
            "turns_used": "2",
            "max_turns_reached": "false",
            "tokens_consumed": "3200"
        }
    });
    assert_eq!(answer, expected);
    // Row 3.20: a call of an unknown tool is an error for the child, which continues.
    let requests = setup.fleet.model.requests_of("Research quantum computing");
    assert_eq!(requests.len(), 3);
    let last = body(&requests[2]).to_string();
    assert!(last.contains(SUMMARY), "the summary is asked in the same conversation: {last}");
    setup.fleet.close().await;
}

async fn row_3_20_a_tool_error_is_returned_to_the_child_which_continues(transport: Transport) {
    let script = Script::new()
        .on(When::assignment("Use it"))
        .then(tool_call("broken", json!({"word": "x"})))
        .then(text("It is broken, so I looked elsewhere."))
        .then(text("Done without it."));
    let setup = Setup::of(script, &[]).await;
    let call = json!({"label": "break", "task_prompt": "Use it.", "allowed_tools": ["broken"]});
    let answer = setup.call(Dialect::Xzatoma, transport, call).await;
    assert_eq!(
        (&answer["success"], &answer["output"]),
        (&json!(true), &json!("Done without it.")),
        "{answer}"
    );
    let second = body(&setup.fleet.model.requests_of("Use it")[1]).to_string();
    assert!(second.contains("The index is damaged"), "{second}");
    setup.fleet.close().await;
}

async fn row_1_7_a_child_has_the_max_tokens_of_its_model(transport: Transport) {
    let script = Script::new().on(When::assignment("Be short")).then(text("Yes."));
    let models = |model: &_| model_config("small", "openai", model, "max_tokens = 77\n");
    let fleet = Fleet::with(script, models).await;
    let config = format!("default_model = \"small\"\n{}", models(&fleet.model));
    let server = Arc::new(TestServer::of(&fleet.world, &config));
    server.post("/v1/sessions", &json!({"session_id": SESSION}).to_string()).await.ok(201);
    let setup = Setup { _worker: fleet.worker(), server, fleet };
    setup.call(Dialect::Caliban, transport, json!({"prompt": "Be short."})).await;
    let requests = setup.fleet.model.requests_of("Be short");
    let sent = body(&requests[0]);
    assert_eq!(
        sent["max_completion_tokens"].as_i64().or(sent["max_tokens"].as_i64()),
        Some(77),
        "{sent}"
    );
    setup.fleet.close().await;
}

async fn the_usage_examples_of_xzatoma_run_as_written(transport: Transport) {
    let script = Script::new()
        .on(When::assignment("highest temperature"))
        .then(text("It was hot."))
        .then(text("Hot."))
        .on(When::assignment("microservices"))
        .then(text("Many issues."))
        .then(text("Critical Issues: none"))
        .on(When::assignment("user-provided code"))
        .then(tool_call("file_ops", json!({})))
        .then(tool_call("file_ops", json!({})));
    let setup = Setup::of(script, &["file_ops"]).await;
    let lookup = json!({
        "label": "weather_research",
        "task_prompt": "What was the highest temperature recorded on Earth in 2024?",
        "allowed_tools": ["fetch"],
        "max_turns": 3
    });
    let review = json!({
        "label": "architecture_review",
        "task_prompt": "Review this microservices architecture for scalability issues: [architecture description]",
        "summary_prompt": "Provide recommendations organized by: Critical Issues, Medium Priority, Low Priority, Implementation Timeline",
        "max_turns": 15
    });
    let isolated = json!({
        "label": "validate_user_code",
        "task_prompt": "Analyze this user-provided code for syntax errors and security issues: [code]",
        "allowed_tools": ["file_ops"],
        "max_turns": 2
    });
    for (call, output, status) in [
        (lookup, "Hot.", "complete"),
        (review, "Critical Issues: none", "complete"),
        (isolated, "", "incomplete"),
    ] {
        let answer = setup.call(Dialect::Xzatoma, transport, call.clone()).await;
        assert_eq!(
            (&answer["success"], &answer["output"]),
            (&json!(true), &json!(output)),
            "{answer}"
        );
        let metadata = &answer["metadata"];
        assert_eq!(
            (&metadata["subagent_label"], &metadata["completion_status"]),
            (&call["label"], &json!(status))
        );
        assert_eq!(metadata.as_object().unwrap().len(), 6);
    }
    setup.fleet.close().await;
}

async fn the_calls_of_caliban_run_as_written_and_row_1_10_only_the_last_text_comes_back(
    transport: Transport,
) {
    let script = Script::new()
        .on(When::assignment("Search the codebase"))
        .then(tool_call("Read", json!({})))
        .then(text("It is in main."))
        .on(When::assignment("Investigate"))
        .then(text("All is well."));
    let setup = Setup::of(script, &["Read", "Grep", "Bash"]).await;
    let listed =
        json!({"prompt": "Search the codebase for it.", "tool_allowlist": ["Read", "Grep"]});
    assert_eq!(
        setup.call(Dialect::Caliban, transport, listed).await,
        json!({"type": "text", "text": "It is in main."})
    );
    let requests = setup.fleet.model.requests_of("Search the codebase");
    let sent: Vec<&str> = body(&requests[0])["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["function"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(sent.len(), 2, "{sent:?}");
    assert!(sent.contains(&"Read") && sent.contains(&"Grep"), "{sent:?}");
    let tasks = setup.server.get("/v1/tasks").await.ok(200);
    let turns = format!("/v1/tasks/{}/turns", tasks["tasks"][0]["id"].as_str().unwrap());
    let turns = setup.server.get(&turns).await.ok(200);
    assert_eq!(turns["turns"].as_array().unwrap().len(), 2, "the steps between are in the history");

    let inherits = json!({"prompt": "Investigate.", "tool_allowlist": null, "model": null});
    assert_eq!(setup.call(Dialect::Caliban, transport, inherits).await["text"], "All is well.");
    let sent = body(&setup.fleet.model.requests_of("Investigate")[0])["tools"].to_string();
    assert!(
        sent.contains("Bash") && sent.contains("shared_context") && !sent.contains("AgentTool"),
        "{sent}"
    );
    setup.fleet.close().await;
}

over_both_wires!(
    the_complete_example_of_xzatoma_has_the_documented_shape,
    row_1_7_a_child_has_the_max_tokens_of_its_model,
    row_3_20_a_tool_error_is_returned_to_the_child_which_continues,
    the_usage_examples_of_xzatoma_run_as_written,
    the_calls_of_caliban_run_as_written_and_row_1_10_only_the_last_text_comes_back,
);
