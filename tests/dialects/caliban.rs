//! The `AgentTool` of caliban, row by row.

use adjutant_agent::FailureKind;
use adjutant_server::Dialect;
use serde_json::{Value, json};

use crate::dialects::over_both_wires;
use crate::support::blocking_orchestrator::{BlockingOrchestrator, SESSION};
use crate::support::tool_client::Transport;
use crate::support::world::until;

fn said(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn wrong(text: &str) -> Value {
    json!({"type": "text", "text": text, "is_error": true})
}

async fn row_1_1_a_prompt_gives_one_block_of_text(transport: Transport) {
    let orchestrator = BlockingOrchestrator::of(Dialect::Caliban, transport).await;
    let begun = orchestrator.start_call(json!({"prompt": "Find it."}));
    let claim = orchestrator.claim().await;
    assert_eq!(claim.assignment.text, "Find it.");
    claim.lease.complete("Found it.".to_owned(), None).write().await.unwrap();
    assert_eq!(begun.await.unwrap(), said("Found it."));
}

async fn row_1_2_the_call_answers_when_the_child_has_ended_and_not_before(transport: Transport) {
    let orchestrator = BlockingOrchestrator::of(Dialect::Caliban, transport).await;
    let begun = orchestrator.start_call(json!({"prompt": "Find it."}));
    let claim = orchestrator.claim().await;
    assert!(!begun.is_finished());
    claim.lease.complete("Found it.".to_owned(), None).write().await.unwrap();
    assert_eq!(begun.await.unwrap()["text"], "Found it.");
}

async fn row_1_3_and_g_14_a_list_gives_exactly_those_tools_and_the_answer_says_which_are_dropped(
    transport: Transport,
) {
    let orchestrator = BlockingOrchestrator::of(Dialect::Caliban, transport).await;
    let some = json!({"prompt": "x", "tool_allowlist": ["grep", "nonsense", "fetch"]});
    assert_eq!(orchestrator.child_of(some.clone()).await.tools, ["grep", "fetch"]);
    let mut answer = said("done");
    answer["dropped_tools"] = json!(["nonsense"]);
    assert_eq!(orchestrator.call_with_result(some, "done").await, answer);
    assert!(
        orchestrator.child_of(json!({"prompt": "x", "tool_allowlist": []})).await.tools.is_empty()
    );
    assert!(
        orchestrator
            .child_of(json!({"prompt": "x", "tool_allowlist": ["Grep"]}))
            .await
            .tools
            .is_empty()
    );
}

async fn row_1_4_without_a_list_a_child_has_every_tool_but_those_to_delegate_with(
    transport: Transport,
) {
    let orchestrator = BlockingOrchestrator::of(Dialect::Caliban, transport).await;
    for arguments in [json!({"prompt": "x"}), json!({"prompt": "x", "tool_allowlist": null})] {
        assert_eq!(
            orchestrator.child_of(arguments).await.tools,
            ["fetch", "grep", "shared_context"]
        );
    }
}

async fn row_1_5_a_child_never_gets_the_tool_to_delegate(transport: Transport) {
    let orchestrator = BlockingOrchestrator::of(Dialect::Caliban, transport).await;
    let list = json!({"prompt": "x", "tool_allowlist": ["AgentTool", "subagent", "fetch"]});
    assert_eq!(orchestrator.child_of(list).await.tools, ["fetch"]);
}

async fn row_1_6_and_g_5_a_child_has_20_turns_or_a_lower_ceiling(transport: Transport) {
    let orchestrator = BlockingOrchestrator::of(Dialect::Caliban, transport).await;
    assert_eq!(orchestrator.child_of(json!({"prompt": "x"})).await.max_turns, 20);
    let refused = orchestrator.call(json!({"prompt": "x", "max_turns": 5})).await;
    let fields = "prompt, tool_allowlist, model, task_id";
    let error = format!(
        "Invalid input: max_turns: is not a field of this action, whose fields are: {fields}"
    );
    assert_eq!(refused, wrong(&error));
    for (ceiling, turns) in [(7, 7), (19, 19), (21, 20), (100, 20)] {
        let orchestrator = BlockingOrchestrator::with(
            Dialect::Caliban,
            transport,
            &format!("[limits]\nmax_turns_ceiling = {ceiling}\n"),
        )
        .await;
        assert_eq!(orchestrator.child_of(json!({"prompt": "x"})).await.max_turns, turns);
    }
}

async fn row_1_7_a_child_has_the_model_of_its_call_or_of_its_session_or_of_the_config(
    transport: Transport,
) {
    let orchestrator = BlockingOrchestrator::of(Dialect::Caliban, transport).await;
    for (model, name) in
        [(Value::Null, "main"), (json!("small"), "small"), (json!("gpt-vendor"), "small")]
    {
        assert_eq!(orchestrator.child_of(json!({"prompt": "x", "model": model})).await.model, name);
    }
    sqlx::query("update session set model = 'small'")
        .execute(&orchestrator.world.sql)
        .await
        .unwrap();
    assert_eq!(orchestrator.child_of(json!({"prompt": "x"})).await.model, "small");
    let refused = orchestrator.call(json!({"prompt": "x", "model": "opus"})).await;
    let text = refused["text"].as_str().unwrap();
    assert!(text.contains("main, small") && refused["is_error"] == true, "{refused}");
}

async fn row_1_8_a_text_of_5000_characters_is_whole_and_of_a_longer_one_5000_are_kept(
    transport: Transport,
) {
    let orchestrator = BlockingOrchestrator::of(Dialect::Caliban, transport).await;
    let whole = "é".repeat(5_000);
    assert_eq!(orchestrator.call_with_result(json!({"prompt": "x"}), &whole).await, said(&whole));
    let cut = format!("{whole}\n\n[sub-agent output truncated]");
    assert_eq!(
        orchestrator.call_with_result(json!({"prompt": "x"}), &format!("{whole}é")).await,
        said(&cut)
    );
}

async fn row_1_9_and_g_7_a_child_out_of_turns_is_a_success_with_a_marker_and_its_text(
    transport: Transport,
) {
    let orchestrator = BlockingOrchestrator::of(Dialect::Caliban, transport).await;
    let marker = "[sub-agent exhausted max_turns without completing]\n\n";
    for partial in [Some("Half of it."), None] {
        let answer = orchestrator.call_until_end(json!({"prompt": "x"}), |claim| {
            claim.lease.fail(
                FailureKind::MaxTurns,
                "Max turns".to_owned(),
                partial.map(str::to_owned),
            )
        });
        assert_eq!(answer.await, said(&format!("{marker}{}", partial.unwrap_or_default())));
    }
    let long = orchestrator.call_until_end(json!({"prompt": "x"}), |claim| {
        claim.lease.fail(FailureKind::MaxTurns, "Max turns".to_owned(), Some("x".repeat(5_001)))
    });
    let cut = format!("{marker}{}\n\n[sub-agent output truncated]", "x".repeat(5_000));
    assert_eq!(long.await, said(&cut));
}

async fn row_1_12_and_g_map_a_child_that_is_cancelled_or_fails_is_an_error_of_the_tool(
    transport: Transport,
) {
    let orchestrator = BlockingOrchestrator::of(Dialect::Caliban, transport).await;
    for failure in [FailureKind::Model, FailureKind::Timeout, FailureKind::EmptyResult] {
        let answer = orchestrator.call_until_end(json!({"prompt": "x"}), |claim| {
            claim.lease.fail(failure, "Model API error: no".to_owned(), Some("said".to_owned()))
        });
        assert_eq!(answer.await, wrong("Model API error: no"));
    }
    let begun = orchestrator.start_call(json!({"prompt": "x"}));
    let claim = orchestrator.claim().await;
    orchestrator.world.store.cancel(claim.lease.task()).await.unwrap();
    assert_eq!(begun.await.unwrap(), wrong("Sub-agent cancelled"));
}

async fn row_1_14_a_childs_events_are_streamed_while_its_call_waits(transport: Transport) {
    let orchestrator = BlockingOrchestrator::of(Dialect::Caliban, transport).await;
    let streams = crate::support::event_server::EventServer::with(
        &orchestrator.world,
        "default",
        Default::default(),
    )
    .await;
    let mut stream = streams.get(&format!("/v1/sessions/{SESSION}/events"), None).await;
    let begun = orchestrator.start_call(json!({"prompt": "x"}));
    let mut claim = orchestrator.claim().await;
    claim.lease.checkpoint(&crate::support::world::turn("thinking")).await.unwrap();
    stream.until("turn").await;
    assert!(!begun.is_finished());
    let path = format!("/v1/tasks/{}/turns", claim.lease.task());
    until("the turn is seen", async || {
        orchestrator.server.get(&path).await.ok(200)["turns"][0]["text"] == "thinking"
    })
    .await;
    assert!(!begun.is_finished());
    claim.lease.complete("done".to_owned(), None).write().await.unwrap();
    begun.await.unwrap();
    let reply: Vec<String> = sqlx::query_scalar("select kind from event order by seq")
        .fetch_all(&orchestrator.world.sql)
        .await
        .unwrap();
    assert_eq!(
        (reply.first().unwrap().as_str(), reply.last().unwrap().as_str()),
        ("spawned", "completed")
    );
    assert!(reply.len() >= 3, "{reply:?}");
}

async fn row_1_15_invalid_input_is_refused_by_field_and_nothing_runs(transport: Transport) {
    let orchestrator = BlockingOrchestrator::of(Dialect::Caliban, transport).await;
    for (arguments, field) in [
        (json!({}), "prompt"),
        (json!({"prompt": null}), "prompt"),
        (json!({"prompt": ""}), "prompt"),
        (json!({"prompt": " \n"}), "prompt"),
        (json!({"prompt": 1}), "prompt"),
        (json!({"prompt": "x", "tool_allowlist": "fetch"}), "tool_allowlist"),
        (json!({"prompt": "x", "tool_allowlist": ["fetch", 1]}), "tool_allowlist[1]"),
        (json!({"prompt": "x", "model": 1}), "model"),
        (json!({"prompt": "x", "model": ""}), "model"),
        (json!({"prompt": "x", "model": "x".repeat(129)}), "model"),
        (json!({"prompt": "x", "task": "y"}), "task"),
        (json!({"task_id": 1}), "task_id"),
        (json!({"task_id": ""}), "task_id"),
    ] {
        let answer = orchestrator.call(arguments.clone()).await;
        let text = answer["text"].as_str().unwrap();
        assert!(text.starts_with(&format!("Invalid input: {field}: ")), "{arguments}: {text}");
        assert_eq!(answer["is_error"], true);
    }
    for unknown in ["t_01", "nonsense"] {
        let answer = orchestrator.call(json!({"task_id": unknown})).await;
        assert_eq!(answer, wrong(&format!("Invalid input: Task not found: {unknown}")));
    }
    assert_eq!(orchestrator.tasks().await, 0);
    assert_eq!(orchestrator.call(json!({"prompt": "x", "model": "opus"})).await["is_error"], true);
    orchestrator.server.post(&format!("/v1/sessions/{SESSION}/archive"), "{}").await.ok(200);
    let archived = orchestrator.call(json!({"prompt": "x"})).await;
    assert!(archived["text"].as_str().unwrap().contains("is archived"), "{archived}");
    assert_eq!(orchestrator.tasks().await, 0);
}

over_both_wires!(
    row_1_1_a_prompt_gives_one_block_of_text,
    row_1_2_the_call_answers_when_the_child_has_ended_and_not_before,
    row_1_3_and_g_14_a_list_gives_exactly_those_tools_and_the_answer_says_which_are_dropped,
    row_1_4_without_a_list_a_child_has_every_tool_but_those_to_delegate_with,
    row_1_5_a_child_never_gets_the_tool_to_delegate,
    row_1_6_and_g_5_a_child_has_20_turns_or_a_lower_ceiling,
    row_1_7_a_child_has_the_model_of_its_call_or_of_its_session_or_of_the_config,
    row_1_8_a_text_of_5000_characters_is_whole_and_of_a_longer_one_5000_are_kept,
    row_1_9_and_g_7_a_child_out_of_turns_is_a_success_with_a_marker_and_its_text,
    row_1_12_and_g_map_a_child_that_is_cancelled_or_fails_is_an_error_of_the_tool,
    row_1_14_a_childs_events_are_streamed_while_its_call_waits,
    row_1_15_invalid_input_is_refused_by_field_and_nothing_runs,
);
