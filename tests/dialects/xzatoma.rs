//! The `subagent` tool of xzatoma, row by row.

pub mod nested;
pub mod quotas;
pub mod telemetry;

use adjutant_agent::{Answer, FailureKind, Turn, TurnKind, Usage};
use adjutant_dialects::xzatoma::{Call, Settings};
use adjutant_server::Dialect;
use adjutant_store::{NewDelegation, NewTask, Operator};
use serde_json::{Value, json};

use crate::dialects::over_both_wires;
use crate::dialects::xzatoma::telemetry::{events_in, name_of};
use crate::support::blocking_orchestrator::{BlockingOrchestrator, SESSION};
use crate::support::tool_client::Transport;
use crate::support::world::until;

pub fn arguments() -> Value {
    json!({"label": "look", "task_prompt": "Look around."})
}

fn arguments_with(field: &str, value: Value) -> Value {
    let mut arguments = arguments();
    arguments[field] = value;
    arguments
}

fn refused(error: &str) -> Value {
    json!({"success": false, "output": "", "error": error, "metadata": {"subagent_label": "look"}})
}

/// The delegation that a server creates for a call.
pub fn delegation(arguments: &Value, tools: &[String], model: &str) -> NewDelegation {
    let Ok(Call::New(new)) = Call::parse(arguments) else { panic!("{arguments}") };
    let agent_config = new.agent_config(tools, model.to_owned(), &Settings::default()).unwrap();
    let task = NewTask {
        agent: "subagent".to_owned(),
        assignment: new.task_prompt.clone(),
        label: Some(new.label.clone()),
        metadata: new.metadata(),
        ..NewTask::default()
    };
    NewDelegation { task, config: Some(agent_config), any_length: true, ..NewDelegation::default() }
}

/// A model call of this kind that took 10 tokens in and 2 out.
pub fn turn(kind: TurnKind, text: &str) -> Turn {
    let usage = Usage { input_tokens: 10, output_tokens: 2, ..Usage::default() };
    Turn { kind, answer: Answer::of_text(text), usage, ..Turn::default() }
}

async fn row_3_1_a_call_says_a_label_and_a_task_and_the_rest_has_defaults(transport: Transport) {
    let orchestrator = BlockingOrchestrator::of(Dialect::Xzatoma, transport).await;
    let begun = orchestrator.start_call(arguments());
    let claim = orchestrator.claim().await;
    assert_eq!(claim.assignment.text, "Look around.");
    let config = &claim.assignment.config;
    assert_eq!((&config["max_turns"], &config["model"]), (&json!(10), &json!("main")));
    assert_eq!(config["summary_prompt"], "Summarize your findings concisely");
    claim.lease.complete("all".to_owned(), Some("sum".to_owned())).write().await.unwrap();
    assert_eq!(begun.await.unwrap()["output"], "sum");
    let nulls = json!({"label": "look", "task_prompt": "Look.", "summary_prompt": null, "allowed_tools": null,
        "max_turns": null, "task_id": null});
    assert_eq!(orchestrator.child_of(nulls).await.max_turns, 10);
}

async fn row_3_2_and_g_29_the_output_is_a_summary_by_the_child(transport: Transport) {
    let orchestrator = BlockingOrchestrator::of(Dialect::Xzatoma, transport).await;
    let own = arguments_with("summary_prompt", json!("In three words"));
    assert_eq!(orchestrator.child_of(own).await.summary_prompt.as_deref(), Some("In three words"));
    let blank = arguments_with("summary_prompt", json!(" "));
    let default = Some("Summarize your findings concisely");
    assert_eq!(orchestrator.child_of(blank).await.summary_prompt.as_deref(), default);
    let summed = orchestrator.call_until_end(arguments(), |claim| {
        claim.lease.complete("The whole story.".to_owned(), Some("The gist.".to_owned()))
    });
    assert_eq!(summed.await["output"], "The gist.");
    assert_eq!(
        orchestrator.call_with_result(arguments(), "No summary came.").await["output"],
        "No summary came."
    );
}

async fn row_3_3_without_a_list_a_child_has_every_tool_but_those_to_delegate_with(
    transport: Transport,
) {
    let orchestrator = BlockingOrchestrator::of(Dialect::Xzatoma, transport).await;
    assert_eq!(orchestrator.child_of(arguments()).await.tools, ["fetch", "grep", "shared_context"]);
    let some = arguments_with("allowed_tools", json!(["grep"]));
    assert_eq!(orchestrator.child_of(some).await.tools, ["grep"]);
    assert!(
        orchestrator.child_of(arguments_with("allowed_tools", json!([]))).await.tools.is_empty()
    );
}

async fn row_3_4_and_3_5_unknown_tools_and_those_to_delegate_with_are_refused_by_name(
    transport: Transport,
) {
    let orchestrator = BlockingOrchestrator::of(Dialect::Xzatoma, transport).await;
    for (tools, error) in [
        (json!(["fetch", "nonexistent_tool"]), "Unknown tool in allowed_tools: nonexistent_tool"),
        (json!([""]), "Unknown tool in allowed_tools: "),
        (json!(["fetch", "subagent"]), "Tool 'subagent' cannot be used by subagents"),
        (json!(["nonsense", "subagent"]), "Tool 'subagent' cannot be used by subagents"),
    ] {
        assert_eq!(orchestrator.call(arguments_with("allowed_tools", tools)).await, refused(error));
    }
    assert_eq!(orchestrator.tasks().await, 0);
}

async fn row_3_8_and_g_5_turns_are_1_to_50_and_then_no_more_than_the_ceiling(transport: Transport) {
    let orchestrator = BlockingOrchestrator::of(Dialect::Xzatoma, transport).await;
    for turns in [json!(0), json!(51), json!(-1), json!(i64::MAX)] {
        let answer = orchestrator.call(arguments_with("max_turns", turns)).await;
        assert_eq!(answer, refused("max_turns must be between 1 and 50"));
    }
    for (turns, given) in [(1, 1), (25, 25), (26, 25), (50, 25)] {
        assert_eq!(
            orchestrator.child_of(arguments_with("max_turns", json!(turns))).await.max_turns,
            given
        );
    }
    let high = "[limits]\nmax_turns_ceiling = 100\n[dialects.xzatoma]\ndefault_max_turns = 100\n";
    let orchestrator = BlockingOrchestrator::with(Dialect::Xzatoma, transport, high).await;
    assert_eq!(orchestrator.child_of(arguments_with("max_turns", json!(50))).await.max_turns, 50);
    assert_eq!(
        orchestrator.child_of(arguments()).await.max_turns,
        100,
        "the default of the config goes further"
    );
}

async fn row_3_9_turns_count_the_messages_to_the_child(transport: Transport) {
    let orchestrator = BlockingOrchestrator::of(Dialect::Xzatoma, transport).await;
    let begun = orchestrator.start_call(arguments());
    let mut claim = orchestrator.claim().await;
    for (kind, text) in [
        (TurnKind::Turn, "one"),
        (TurnKind::Turn, "two"),
        (TurnKind::Turn, "three"),
        (TurnKind::Summary, "sum"),
    ] {
        claim.lease.checkpoint(&turn(kind, text)).await.unwrap();
    }
    claim.lease.complete("three".to_owned(), Some("sum".to_owned())).write().await.unwrap();
    assert_eq!(begun.await.unwrap()["metadata"]["turns_used"], "2");
}

async fn row_3_10_invalid_input_is_refused_in_the_sources_words_and_nothing_runs(
    transport: Transport,
) {
    let orchestrator = BlockingOrchestrator::of(Dialect::Xzatoma, transport).await;
    for (arguments, error) in [
        (json!({}), "Invalid input: missing field `label`"),
        (json!({"task_prompt": "x"}), "Invalid input: missing field `label`"),
        (json!({"label": null, "task_prompt": "x"}), "Invalid input: missing field `label`"),
        (json!({"label": "", "task_prompt": "x"}), "label cannot be empty"),
        (json!({"label": " \t", "task_prompt": "x"}), "label cannot be empty"),
        (json!({"label": "look"}), "task_prompt cannot be empty"),
        (json!({"label": "look", "task_prompt": ""}), "task_prompt cannot be empty"),
        (json!({"label": "look", "task_prompt": "\n "}), "task_prompt cannot be empty"),
        (json!({"label": 1, "task_prompt": "x"}), "Invalid input: label: must be a string"),
        (
            json!({"label": "x".repeat(201), "task_prompt": "x"}),
            "label cannot have more than 200 characters",
        ),
        (
            json!({"label": "look", "task_prompt": []}),
            "Invalid input: task_prompt: must be a string",
        ),
        (
            arguments_with("summary_prompt", json!(1)),
            "Invalid input: summary_prompt: must be a string",
        ),
        (
            arguments_with("allowed_tools", json!("fetch")),
            "Invalid input: allowed_tools: must be an array",
        ),
        (
            arguments_with("allowed_tools", json!([1])),
            "Invalid input: allowed_tools[0]: must be a string",
        ),
        (
            arguments_with("max_turns", json!("5")),
            "Invalid input: max_turns: must be a whole number",
        ),
        (
            arguments_with("max_turns", json!(1.5)),
            "Invalid input: max_turns: must be a whole number",
        ),
        (
            arguments_with("prompt", json!("x")),
            "Invalid input: prompt: is not a field of this action, whose fields are: label, task_prompt, summary_prompt, allowed_tools, max_turns, task_id",
        ),
        (json!({"task_id": 1}), "Invalid input: task_id: must be a string"),
        (json!({"task_id": "t_01"}), "Task not found: t_01"),
    ] {
        let answer = orchestrator.call(arguments.clone()).await;
        assert_eq!(
            (&answer["success"], &answer["error"]),
            (&json!(false), &json!(error)),
            "{arguments}"
        );
        assert_eq!(answer["output"], "");
    }
    assert_eq!(orchestrator.tasks().await, 0);
    let longest = json!({"label": "é".repeat(200), "task_prompt": "x"});
    assert_eq!(orchestrator.call_with_result(longest, "done").await["success"], true);
    orchestrator.server.post(&format!("/v1/sessions/{SESSION}/archive"), "{}").await.ok(200);
    let archived = orchestrator.call(arguments()).await;
    assert!(archived["error"].as_str().unwrap().contains("is archived"), "{archived}");
}

async fn row_3_11_and_3_12_a_success_has_an_output_and_metadata_that_are_strings(
    transport: Transport,
) {
    let orchestrator = BlockingOrchestrator::of(Dialect::Xzatoma, transport).await;
    let begun = orchestrator.start_call(arguments());
    let mut claim = orchestrator.claim().await;
    claim.lease.checkpoint(&turn(TurnKind::Turn, "all")).await.unwrap();
    claim.lease.checkpoint(&turn(TurnKind::Summary, "sum")).await.unwrap();
    claim.lease.complete("all".to_owned(), Some("sum".to_owned())).write().await.unwrap();
    let expected = json!({
        "success": true,
        "output": "sum",
        "error": null,
        "metadata": {
            "subagent_label": "look",
            "recursion_depth": "1",
            "completion_status": "complete",
            "turns_used": "2",
            "max_turns_reached": "false",
            "tokens_consumed": "24",
        },
    });
    assert_eq!(begun.await.unwrap(), expected);
}

async fn row_3_13_and_g_7_a_child_out_of_turns_is_a_success_that_is_incomplete(
    transport: Transport,
) {
    let orchestrator = BlockingOrchestrator::of(Dialect::Xzatoma, transport).await;
    for partial in [Some("Half of it."), None] {
        let answer = orchestrator.call_until_end(arguments(), |claim| {
            claim.lease.fail(
                FailureKind::MaxTurns,
                "Max turns".to_owned(),
                partial.map(str::to_owned),
            )
        });
        let answer = answer.await;
        assert_eq!(
            (&answer["success"], &answer["error"]),
            (&json!(true), &Value::Null),
            "{answer}"
        );
        assert_eq!(answer["output"], partial.unwrap_or_default());
        assert_eq!(answer["metadata"]["completion_status"], "incomplete");
        assert_eq!(answer["metadata"]["max_turns_reached"], "true");
    }
}

async fn row_3_14_an_output_of_4096_bytes_is_whole_and_a_longer_one_is_cut_between_characters(
    transport: Transport,
) {
    let orchestrator = BlockingOrchestrator::of(Dialect::Xzatoma, transport).await;
    let whole = "x".repeat(4_096);
    assert_eq!(orchestrator.call_with_result(arguments(), &whole).await["output"], whole);
    let cut = format!("{whole}[Output truncated]");
    assert_eq!(
        orchestrator.call_with_result(arguments(), &format!("{whole}x")).await["output"],
        cut
    );
    let cut = format!("x{}[Output truncated]", "é".repeat(2_047));
    assert_eq!(
        orchestrator.call_with_result(arguments(), &format!("x{}", "é".repeat(2_048))).await["output"],
        cut
    );
    let orchestrator = BlockingOrchestrator::with(
        Dialect::Xzatoma,
        transport,
        "[dialects.xzatoma]\noutput_max_size = 1024\n",
    )
    .await;
    let answer = orchestrator.call_with_result(arguments(), &"x".repeat(1_025)).await;
    assert_eq!(answer["output"], format!("{}[Output truncated]", "x".repeat(1_024)));
}

async fn row_3_15_and_g_map_a_failure_has_an_error_and_no_output(transport: Transport) {
    let orchestrator = BlockingOrchestrator::of(Dialect::Xzatoma, transport).await;
    let expected = |error: &str| {
        json!({"success": false, "output": "", "error": error,
            "metadata": {"subagent_label": "look", "recursion_depth": "1"}})
    };
    for failure in [FailureKind::Model, FailureKind::Timeout, FailureKind::Budget] {
        let answer = orchestrator.call_until_end(arguments(), |claim| {
            claim.lease.fail(failure, "Invalid tool request".to_owned(), Some("said".to_owned()))
        });
        assert_eq!(answer.await, expected("Subagent execution failed: Invalid tool request"));
    }
    let begun = orchestrator.start_call(arguments());
    let claim = orchestrator.claim().await;
    orchestrator.world.store.cancel(claim.lease.task()).await.unwrap();
    assert_eq!(begun.await.unwrap(), expected("Subagent execution failed: Task cancelled"));
}

async fn row_3_16_a_server_logs_spawns_and_cancels_unless_turned_off(transport: Transport) {
    let orchestrator = BlockingOrchestrator::of(Dialect::Xzatoma, transport).await;
    let begun = orchestrator.start_call(arguments_with("allowed_tools", json!(["fetch"])));
    let claim = orchestrator.claim().await;
    // A child, as the agent of the task would spawn it.
    let below = delegation(&arguments_with("label", json!("below")), &[], "main");
    claim.lease.delegate("call", &[below], &Operator::default()).await.unwrap();
    until("the spawn is told", async || !events_of(&orchestrator).is_empty()).await;
    let cancel = format!("/v1/tasks/{}/cancel", claim.lease.task());
    for _ in 0..2 {
        orchestrator.server.post(&cancel, "{}").await.ok(200);
    }
    begun.await.unwrap();
    let said = orchestrator.server.stderr();
    let logged: Vec<Value> = events_in(&said).iter().map(fields).collect();
    let expected = [
        json!({"event": "spawn", "label": "look", "depth": 1, "max_turns": 10, "allowed_tools": "fetch"}),
        json!({"event": "error", "label": "look", "depth": 1, "error": "cancelled"}),
        json!({"event": "error", "label": "below", "depth": 2, "error": "cancelled"}),
    ];
    assert_eq!(logged, expected);
    assert!(!said.contains("Look around"), "{said}");

    let orchestrator = BlockingOrchestrator::with(
        Dialect::Xzatoma,
        transport,
        "[dialects.xzatoma]\ntelemetry_enabled = false\n",
    )
    .await;
    let begun = orchestrator.start_call(arguments());
    orchestrator
        .server
        .post(&format!("/v1/tasks/{}/cancel", orchestrator.claim().await.lease.task()), "{}")
        .await
        .ok(200);
    begun.await.unwrap();
    assert!(!orchestrator.server.stderr().contains("subagent.event"));
}

/// The fields of an event.
fn fields(event: &Value) -> Value {
    let fields = event.as_object().unwrap().iter();
    fields
        .filter_map(|(name, value)| Some((name.strip_prefix("subagent.")?, value.clone())))
        .collect()
}

/// The names of the events that a server has logged.
fn events_of(orchestrator: &BlockingOrchestrator) -> Vec<String> {
    events_in(&orchestrator.server.stderr()).iter().map(name_of).collect()
}

async fn row_3_16_a_repeated_answer_is_not_logged_again(transport: Transport) {
    let orchestrator = BlockingOrchestrator::of(Dialect::Xzatoma, transport).await;
    let keyed = BlockingOrchestrator { client: orchestrator.client.with_key("k"), ..orchestrator };
    let first = keyed.call_with_result(arguments_with("max_turns", json!(50)), "done").await;
    assert_eq!(keyed.call(arguments_with("max_turns", json!(50))).await, first);
    keyed.call(json!({"task_id": "t_01"})).await;
    assert_eq!(events_of(&keyed), ["spawn"]);
    let said = keyed.server.stderr();
    assert!(said.contains(r#""subagent.max_turns":25"#), "{said}");

    let poller = BlockingOrchestrator { client: keyed.client.with_key("l").with_tasks(), ..keyed };
    let begun = poller.call(arguments()).await;
    poller.claim().await.lease.complete("done".to_owned(), None).write().await.unwrap();
    for _ in 0..2 {
        let got = poller.client.request("tasks/get", json!({"taskId": begun["taskId"]})).await;
        assert_eq!(got["result"]["status"], "completed", "{got}");
    }
    assert_eq!(events_of(&poller), ["spawn", "spawn"]);
}

async fn row_3_16_only_a_used_up_quota_is_logged_as_one(transport: Transport) {
    let orchestrator = BlockingOrchestrator::with(
        Dialect::Xzatoma,
        transport,
        "[limits]\nsession_max_queued = 1\n",
    )
    .await;
    let begun = orchestrator.start_call(arguments());
    let claim = orchestrator.claim().await;
    assert_eq!(orchestrator.call(arguments()).await["success"], false);
    claim.lease.complete("done".to_owned(), None).write().await.unwrap();
    begun.await.unwrap();
    assert_eq!(events_of(&orchestrator), ["spawn"]);
    let orchestrator = BlockingOrchestrator::with(
        Dialect::Xzatoma,
        transport,
        "[dialects.xzatoma]\nmax_executions = 1\n",
    )
    .await;
    orchestrator.call_with_result(arguments(), "done").await;
    orchestrator.call(arguments()).await;
    assert_eq!(events_of(&orchestrator), ["spawn", "quota_exceeded"]);
}

async fn row_3_17_conversations_are_stored_with_their_depth_and_their_times(transport: Transport) {
    let orchestrator = BlockingOrchestrator::with(
        Dialect::Xzatoma,
        transport,
        "[dialects.xzatoma]\npersistence_enabled = true\n",
    )
    .await;
    let begun = orchestrator.start_call(arguments());
    let mut claim = orchestrator.claim().await;
    let id = claim.lease.task();
    claim.lease.checkpoint(&turn(TurnKind::Turn, "all")).await.unwrap();
    claim.lease.complete("all".to_owned(), None).write().await.unwrap();
    begun.await.unwrap();
    let task = orchestrator.server.get(&format!("/v1/tasks/{id}")).await.ok(200);
    assert_eq!(
        (&task["label"], &task["depth"], &task["parent"]),
        (&json!("look"), &json!(1), &Value::Null)
    );
    assert_eq!(
        (&task["assignment"], &task["metadata"]["dialect"]),
        (&json!("Look around."), &json!("xzatoma"))
    );
    assert!(task["created_at"].is_string() && task["finished_at"].is_string(), "{task}");
    let turns = orchestrator.server.get(&format!("/v1/tasks/{id}/turns")).await.ok(200);
    assert_eq!(turns["turns"][0]["text"], "all");
}

over_both_wires!(
    row_3_1_a_call_says_a_label_and_a_task_and_the_rest_has_defaults,
    row_3_2_and_g_29_the_output_is_a_summary_by_the_child,
    row_3_3_without_a_list_a_child_has_every_tool_but_those_to_delegate_with,
    row_3_4_and_3_5_unknown_tools_and_those_to_delegate_with_are_refused_by_name,
    row_3_8_and_g_5_turns_are_1_to_50_and_then_no_more_than_the_ceiling,
    row_3_9_turns_count_the_messages_to_the_child,
    row_3_10_invalid_input_is_refused_in_the_sources_words_and_nothing_runs,
    row_3_11_and_3_12_a_success_has_an_output_and_metadata_that_are_strings,
    row_3_13_and_g_7_a_child_out_of_turns_is_a_success_that_is_incomplete,
    row_3_14_an_output_of_4096_bytes_is_whole_and_a_longer_one_is_cut_between_characters,
    row_3_15_and_g_map_a_failure_has_an_error_and_no_output,
    row_3_16_a_server_logs_spawns_and_cancels_unless_turned_off,
    row_3_16_a_repeated_answer_is_not_logged_again,
    row_3_16_only_a_used_up_quota_is_logged_as_one,
    row_3_17_conversations_are_stored_with_their_depth_and_their_times,
);
