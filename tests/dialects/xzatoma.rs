//! `subagent` of seed 003.

use adjutant_agent::dialects::xzatoma::{Call, Settings};
use adjutant_agent::{Answer, FailureKind, Turn, TurnKind, Usage};
use adjutant_store::{NewTask, Operator};
use serde_json::{Value, json};

use super::front::{Front, SESSION, Wire};
use super::over_both_wires;
use super::telemetry::{events_in, name_of};
use crate::world::until;

fn asked() -> Value {
    json!({"label": "look", "task_prompt": "Look around."})
}

fn asked_with(field: &str, value: Value) -> Value {
    let mut asked = asked();
    asked[field] = value;
    asked
}

fn refused(error: &str) -> Value {
    json!({"success": false, "output": "", "error": error, "metadata": {"subagent_label": "look"}})
}

/// A model call of this kind that took 10 tokens in and 2 out.
fn turn(kind: TurnKind, text: &str) -> Turn {
    let usage = Usage { input_tokens: 10, output_tokens: 2, ..Usage::default() };
    Turn { kind, answer: Answer::of_text(text), usage, ..Turn::default() }
}

async fn row_3_1_a_call_says_a_label_and_a_task_and_the_rest_has_defaults(wire: Wire) {
    let front = Front::of("xzatoma", wire).await;
    let begun = front.begin(asked());
    let claim = front.claim().await;
    assert_eq!(claim.assignment.text, "Look around.");
    let config = &claim.assignment.config;
    assert_eq!((&config["max_turns"], &config["model"]), (&json!(10), &json!("main")));
    assert_eq!(config["summary_prompt"], "Summarize your findings concisely");
    claim.lease.complete("all".to_owned(), Some("sum".to_owned())).write().await.unwrap();
    assert_eq!(begun.await.unwrap()["output"], "sum");
    let nulls = json!({"label": "look", "task_prompt": "Look.", "summary_prompt": null, "allowed_tools": null,
        "max_turns": null, "task_id": null});
    assert_eq!(front.child_of(nulls).await.max_turns, 10);
}

async fn row_3_2_and_g_29_the_child_is_always_asked_to_sum_up_and_that_is_the_output(wire: Wire) {
    let front = Front::of("xzatoma", wire).await;
    let own = asked_with("summary_prompt", json!("In three words"));
    assert_eq!(front.child_of(own).await.summary_prompt.as_deref(), Some("In three words"));
    let blank = asked_with("summary_prompt", json!(" "));
    let default = Some("Summarize your findings concisely");
    assert_eq!(front.child_of(blank).await.summary_prompt.as_deref(), default);
    let summed = front.ends(asked(), |claim| {
        claim.lease.complete("The whole story.".to_owned(), Some("The gist.".to_owned()))
    });
    assert_eq!(summed.await["output"], "The gist.");
    assert_eq!(front.says(asked(), "No summary came.").await["output"], "No summary came.");
}

async fn row_3_3_without_a_list_a_child_has_every_tool_but_those_to_delegate_with(wire: Wire) {
    let front = Front::of("xzatoma", wire).await;
    assert_eq!(front.child_of(asked()).await.tools, ["fetch", "grep", "shared_context"]);
    let some = asked_with("allowed_tools", json!(["grep"]));
    assert_eq!(front.child_of(some).await.tools, ["grep"]);
    assert!(front.child_of(asked_with("allowed_tools", json!([]))).await.tools.is_empty());
}

async fn row_3_4_and_3_5_unknown_tools_and_those_to_delegate_with_are_refused_by_name(wire: Wire) {
    let front = Front::of("xzatoma", wire).await;
    for (tools, error) in [
        (json!(["fetch", "nonexistent_tool"]), "Unknown tool in allowed_tools: nonexistent_tool"),
        (json!([""]), "Unknown tool in allowed_tools: "),
        (json!(["fetch", "subagent"]), "Tool 'subagent' cannot be used by subagents"),
        (json!(["nonsense", "subagent"]), "Tool 'subagent' cannot be used by subagents"),
    ] {
        assert_eq!(front.call(asked_with("allowed_tools", tools)).await, refused(error));
    }
    assert_eq!(front.tasks().await, 0);
}

async fn row_3_8_and_g_5_turns_are_1_to_50_and_then_no_more_than_the_ceiling(wire: Wire) {
    let front = Front::of("xzatoma", wire).await;
    for turns in [json!(0), json!(51), json!(-1), json!(i64::MAX)] {
        let answer = front.call(asked_with("max_turns", turns)).await;
        assert_eq!(answer, refused("max_turns must be between 1 and 50"));
    }
    for (turns, given) in [(1, 1), (25, 25), (26, 25), (50, 25)] {
        assert_eq!(front.child_of(asked_with("max_turns", json!(turns))).await.max_turns, given);
    }
    let high = "[limits]\nmax_turns_ceiling = 100\n[dialects.xzatoma]\ndefault_max_turns = 100\n";
    let front = Front::with("xzatoma", wire, high).await;
    assert_eq!(front.child_of(asked_with("max_turns", json!(50))).await.max_turns, 50);
    assert_eq!(front.child_of(asked()).await.max_turns, 100, "the default of the config goes further");
}

async fn row_3_9_turns_are_counted_as_what_is_said_to_the_child(wire: Wire) {
    let front = Front::of("xzatoma", wire).await;
    let begun = front.begin(asked());
    let mut claim = front.claim().await;
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

async fn row_3_10_what_is_no_input_is_refused_in_the_sources_words_and_nothing_runs(wire: Wire) {
    let front = Front::of("xzatoma", wire).await;
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
        (json!({"label": "x".repeat(201), "task_prompt": "x"}), "label cannot have more than 200 characters"),
        (json!({"label": "look", "task_prompt": []}), "Invalid input: task_prompt: must be a string"),
        (asked_with("summary_prompt", json!(1)), "Invalid input: summary_prompt: must be a string"),
        (asked_with("allowed_tools", json!("fetch")), "Invalid input: allowed_tools: must be an array"),
        (asked_with("allowed_tools", json!([1])), "Invalid input: allowed_tools[0]: must be a string"),
        (asked_with("max_turns", json!("5")), "Invalid input: max_turns: must be a whole number"),
        (asked_with("max_turns", json!(1.5)), "Invalid input: max_turns: must be a whole number"),
        (asked_with("prompt", json!("x")), "Invalid input: prompt: is not a field of this action"),
        (json!({"task_id": 1}), "Invalid input: task_id: must be a string"),
        (json!({"task_id": "t_01"}), "Task not found: t_01"),
    ] {
        let answer = front.call(arguments.clone()).await;
        assert_eq!((&answer["success"], &answer["error"]), (&json!(false), &json!(error)), "{arguments}");
        assert_eq!(answer["output"], "");
    }
    assert_eq!(front.tasks().await, 0);
    let longest = json!({"label": "é".repeat(200), "task_prompt": "x"});
    assert_eq!(front.says(longest, "done").await["success"], true);
    front.server.post(&format!("/v1/sessions/{SESSION}/archive"), "{}").await.ok(200);
    let archived = front.call(asked()).await;
    assert!(archived["error"].as_str().unwrap().contains("is archived"), "{archived}");
}

async fn row_3_11_and_3_12_a_success_has_an_output_and_metadata_that_are_strings(wire: Wire) {
    let front = Front::of("xzatoma", wire).await;
    let begun = front.begin(asked());
    let mut claim = front.claim().await;
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

async fn row_3_13_and_g_7_a_child_out_of_turns_is_a_success_that_is_incomplete(wire: Wire) {
    let front = Front::of("xzatoma", wire).await;
    for partial in [Some("Half of it."), None] {
        let answer = front.ends(asked(), |claim| {
            claim.lease.fail(FailureKind::MaxTurns, "Max turns".to_owned(), partial.map(str::to_owned))
        });
        let answer = answer.await;
        assert_eq!((&answer["success"], &answer["error"]), (&json!(true), &Value::Null), "{answer}");
        assert_eq!(answer["output"], partial.unwrap_or_default());
        assert_eq!(answer["metadata"]["completion_status"], "incomplete");
        assert_eq!(answer["metadata"]["max_turns_reached"], "true");
    }
}

async fn row_3_14_an_output_of_4096_bytes_is_whole_and_a_longer_one_is_cut_between_characters(wire: Wire) {
    let front = Front::of("xzatoma", wire).await;
    let whole = "x".repeat(4_096);
    assert_eq!(front.says(asked(), &whole).await["output"], whole);
    let cut = format!("{whole}[Output truncated]");
    assert_eq!(front.says(asked(), &format!("{whole}x")).await["output"], cut);
    let cut = format!("x{}[Output truncated]", "é".repeat(2_047));
    assert_eq!(front.says(asked(), &format!("x{}", "é".repeat(2_048))).await["output"], cut);
    let front = Front::with("xzatoma", wire, "[dialects.xzatoma]\noutput_max_size = 1024\n").await;
    let answer = front.says(asked(), &"x".repeat(1_025)).await;
    assert_eq!(answer["output"], format!("{}[Output truncated]", "x".repeat(1_024)));
}

async fn row_3_15_and_g_map_a_failure_has_an_error_and_no_output(wire: Wire) {
    let front = Front::of("xzatoma", wire).await;
    let expected = |error: &str| {
        json!({"success": false, "output": "", "error": error,
            "metadata": {"subagent_label": "look", "recursion_depth": "1"}})
    };
    for failure in [FailureKind::Model, FailureKind::Timeout, FailureKind::Budget] {
        let answer = front.ends(asked(), |claim| {
            claim.lease.fail(failure, "Invalid tool request".to_owned(), Some("said".to_owned()))
        });
        assert_eq!(answer.await, expected("Subagent execution failed: Invalid tool request"));
    }
    let begun = front.begin(asked());
    let claim = front.claim().await;
    front.world.store.cancel(claim.lease.task()).await.unwrap();
    assert_eq!(begun.await.unwrap(), expected("Subagent execution failed: Task cancelled"));
}

async fn row_3_16_a_server_tells_of_what_it_spawns_and_cancels_unless_that_is_turned_off(wire: Wire) {
    let front = Front::of("xzatoma", wire).await;
    let begun = front.begin(asked_with("allowed_tools", json!(["fetch"])));
    let claim = front.claim().await;
    // One below it, as its agent would make it.
    let Ok(Call::New(new)) = Call::parse(&asked_with("label", json!("below"))) else { panic!() };
    let spec = new.spec(&[], "main".to_owned(), &Settings::default()).unwrap();
    let below = NewTask {
        agent: "subagent".to_owned(),
        config: Operator::default().config_of(spec).unwrap(),
        assignment: new.task_prompt.clone(),
        label: Some(new.label.clone()),
        metadata: new.metadata(),
        ..NewTask::default()
    };
    claim.lease.spawn_by_call("call", &[below]).await.unwrap();
    until("the spawn is told", async || !events_of(&front).is_empty()).await;
    let cancel = format!("/v1/tasks/{}/cancel", claim.lease.task());
    for _ in 0..2 {
        front.server.post(&cancel, "{}").await.ok(200);
    }
    begun.await.unwrap();
    let said = front.server.said();
    let told: Vec<Value> = events_in(&said).iter().map(fields).collect();
    let expected = [
        json!({"event": "spawn", "label": "look", "depth": 1, "max_turns": 10, "allowed_tools": "fetch"}),
        json!({"event": "error", "label": "look", "depth": 1, "error": "cancelled"}),
        json!({"event": "error", "label": "below", "depth": 2, "error": "cancelled"}),
    ];
    assert_eq!(told, expected);
    assert!(!said.contains("Look around"), "{said}");

    let front = Front::with("xzatoma", wire, "[dialects.xzatoma]\ntelemetry_enabled = false\n").await;
    let begun = front.begin(asked());
    front.server.post(&format!("/v1/tasks/{}/cancel", front.claim().await.lease.task()), "{}").await.ok(200);
    begun.await.unwrap();
    assert!(!front.server.said().contains("subagent.event"));
}

/// What an event says of its subagent.
fn fields(event: &Value) -> Value {
    let fields = event.as_object().unwrap().iter();
    fields.filter_map(|(name, value)| Some((name.strip_prefix("subagent.")?, value.clone()))).collect()
}

/// The names of the events that a server has told.
fn events_of(front: &Front) -> Vec<String> {
    events_in(&front.server.said()).iter().map(name_of).collect()
}

async fn row_3_16_what_is_shown_again_is_not_told_again(wire: Wire) {
    let front = Front::of("xzatoma", wire).await;
    let keyed = Front { caller: front.caller.with_key("k"), ..front };
    let first = keyed.says(asked_with("max_turns", json!(50)), "done").await;
    assert_eq!(keyed.call(asked_with("max_turns", json!(50))).await, first);
    keyed.call(json!({"task_id": "t_01"})).await;
    assert_eq!(events_of(&keyed), ["spawn"]);
    let said = keyed.server.said();
    assert!(said.contains(r#""subagent.max_turns":25"#), "{said}");

    let poller = Front { caller: keyed.caller.with_key("l").knowing_tasks(), ..keyed };
    let begun = poller.call(asked()).await;
    poller.claim().await.lease.complete("done".to_owned(), None).write().await.unwrap();
    for _ in 0..2 {
        let got = poller.caller.request("tasks/get", json!({"taskId": begun["taskId"]})).await;
        assert_eq!(got["result"]["status"], "completed", "{got}");
    }
    assert_eq!(events_of(&poller), ["spawn", "spawn"]);
}

async fn row_3_16_only_a_quota_that_is_used_up_is_told_as_one(wire: Wire) {
    let front = Front::with("xzatoma", wire, "[limits]\nsession_max_queued = 1\n").await;
    let begun = front.begin(asked());
    let claim = front.claim().await;
    assert_eq!(front.call(asked()).await["success"], false);
    claim.lease.complete("done".to_owned(), None).write().await.unwrap();
    begun.await.unwrap();
    assert_eq!(events_of(&front), ["spawn"]);
    let front = Front::with("xzatoma", wire, "[dialects.xzatoma]\nmax_executions = 1\n").await;
    front.says(asked(), "done").await;
    front.call(asked()).await;
    assert_eq!(events_of(&front), ["spawn", "quota_exceeded"]);
}

async fn row_3_17_conversations_are_stored_with_their_depth_and_their_times(wire: Wire) {
    let front = Front::with("xzatoma", wire, "[dialects.xzatoma]\npersistence_enabled = true\n").await;
    let begun = front.begin(asked());
    let mut claim = front.claim().await;
    let id = claim.lease.task();
    claim.lease.checkpoint(&turn(TurnKind::Turn, "all")).await.unwrap();
    claim.lease.complete("all".to_owned(), None).write().await.unwrap();
    begun.await.unwrap();
    let task = front.server.get(&format!("/v1/tasks/{id}")).await.ok(200);
    assert_eq!((&task["label"], &task["depth"], &task["parent"]), (&json!("look"), &json!(0), &Value::Null));
    assert_eq!(
        (&task["assignment"], &task["metadata"]["dialect"]),
        (&json!("Look around."), &json!("xzatoma"))
    );
    assert!(task["created_at"].is_string() && task["finished_at"].is_string(), "{task}");
    let turns = front.server.get(&format!("/v1/tasks/{id}/turns")).await.ok(200);
    assert_eq!(turns["turns"][0]["text"], "all");
}

/// Over any quota, with nothing of the task.
fn over(answer: &Value, sentence: &str) {
    assert_eq!(answer["success"], false, "{answer}");
    assert_eq!(answer["error"], format!("Resource quota exceeded: {sentence}"));
    assert_eq!(answer["output"], "");
}

async fn row_3_18_executions_and_time_are_looked_at_before_a_subagent_begins(wire: Wire) {
    let front = Front::with("xzatoma", wire, "[dialects.xzatoma]\nmax_executions = 2\n").await;
    for _ in 0..2 {
        assert_eq!(front.says(asked(), "done").await["success"], true);
    }
    over(&front.call(asked()).await, "2 executions used, and there are 2");
    assert_eq!(front.tasks().await, 2);
    assert!(front.server.said().contains("\"subagent.event\":\"quota_exceeded\""));
    front.server.post("/v1/sessions", r#"{"session_id": "another"}"#).await.ok(201);
    let front = Front { caller: front.caller.at("another"), ..front };
    assert_eq!(front.says(asked(), "done").await["success"], true, "another session has a quota of its own");

    let front = Front::with("xzatoma", wire, "[dialects.xzatoma]\nmax_total_time = 60\n").await;
    assert_eq!(front.says(asked(), "done").await["success"], true);
    sqlx::query("alter table task disable trigger user").execute(&front.world.sql).await.unwrap();
    sqlx::query("update task set running_ms = 59900").execute(&front.world.sql).await.unwrap();
    assert_eq!(front.says(asked(), "done").await["success"], true);
    sqlx::query("update task set running_ms = 30000").execute(&front.world.sql).await.unwrap();
    over(&front.call(asked()).await, "60.0 s of execution used, and there are 60");
}

async fn row_3_18_of_calls_at_the_same_instant_only_as_many_as_there_are_begin_and_a_key_counts_once(
    wire: Wire,
) {
    let more = "[dialects]\nlongest_wait_s = 0.2\n[dialects.xzatoma]\nmax_executions = 3\n";
    let front = Front::with("xzatoma", wire, more).await;
    let keyed = front.caller.with_key("k");
    assert_eq!(keyed.call(asked()).await["metadata"]["task_id"], "t_01");
    let calls: Vec<_> = (0..6).map(|_| front.begin(asked())).collect();
    let mut begun = 0;
    for call in calls {
        begun += i32::from(call.await.unwrap()["success"] == true);
    }
    assert_eq!((begun, front.tasks().await), (2, 3));
    assert_eq!(keyed.call(asked()).await["metadata"]["task_id"], "t_01", "it is one of the three");
}

async fn row_3_18_tokens_are_looked_at_after_a_subagent_has_ended_and_by_g_33_before_the_next(wire: Wire) {
    let front = Front::with("xzatoma", wire, "[dialects.xzatoma]\nmax_total_tokens = 24\n").await;
    let used = async |turns: i32| {
        let begun = front.begin(asked());
        let mut claim = front.claim().await;
        for _ in 0..turns {
            claim.lease.checkpoint(&turn(TurnKind::Turn, "x")).await.unwrap();
        }
        claim.lease.complete("x".to_owned(), None).write().await.unwrap();
        begun.await.unwrap()
    };
    assert_eq!(used(2).await["success"], true, "24 are all that there are");
    over(&used(1).await, "36 tokens used, and there are 24");
    over(&front.call(asked()).await, "36 tokens used, and there are 24");
    assert_eq!(front.call(json!({"task_id": "t_01"})).await["success"], true, "what was fine stays so");
    over(&front.call(json!({"task_id": "t_02"})).await, "36 tokens used, and there are 24");
    assert_eq!(front.tasks().await, 2);
}

over_both_wires!(
    row_3_1_a_call_says_a_label_and_a_task_and_the_rest_has_defaults,
    row_3_2_and_g_29_the_child_is_always_asked_to_sum_up_and_that_is_the_output,
    row_3_3_without_a_list_a_child_has_every_tool_but_those_to_delegate_with,
    row_3_4_and_3_5_unknown_tools_and_those_to_delegate_with_are_refused_by_name,
    row_3_8_and_g_5_turns_are_1_to_50_and_then_no_more_than_the_ceiling,
    row_3_9_turns_are_counted_as_what_is_said_to_the_child,
    row_3_10_what_is_no_input_is_refused_in_the_sources_words_and_nothing_runs,
    row_3_11_and_3_12_a_success_has_an_output_and_metadata_that_are_strings,
    row_3_13_and_g_7_a_child_out_of_turns_is_a_success_that_is_incomplete,
    row_3_14_an_output_of_4096_bytes_is_whole_and_a_longer_one_is_cut_between_characters,
    row_3_15_and_g_map_a_failure_has_an_error_and_no_output,
    row_3_16_a_server_tells_of_what_it_spawns_and_cancels_unless_that_is_turned_off,
    row_3_16_what_is_shown_again_is_not_told_again,
    row_3_16_only_a_quota_that_is_used_up_is_told_as_one,
    row_3_17_conversations_are_stored_with_their_depth_and_their_times,
    row_3_18_executions_and_time_are_looked_at_before_a_subagent_begins,
    row_3_18_of_calls_at_the_same_instant_only_as_many_as_there_are_begin_and_a_key_counts_once,
    row_3_18_tokens_are_looked_at_after_a_subagent_has_ended_and_by_g_33_before_the_next,
);
