use adjutant_script::{Script, When, status, text, tool_call};
use serde_json::{Value, json};

use crate::dialects::weakincentives::dispatcher::{Dispatcher, SESSION, ad_hoc};
use crate::dialects::weakincentives::over_every_wire;
use crate::support::tool_client::{Reply, Transport};
use crate::worker::delegation::agents::{spawn, wait};

over_every_wire! {
    row_4_9_a_dispatch_gives_its_summary_what_was_delivered_and_the_tools_in_order_of_first_use,
    row_4_6_and_4_8_a_child_starts_with_a_snapshot_and_leaves_nothing,
    row_4_10_a_run_that_fails_is_a_message_without_a_result,
}

fn context(action: &str, value: Option<&str>) -> Value {
    json!({"action": action, "key": "plan", "value": value})
}

async fn row_4_9_a_dispatch_gives_its_summary_what_was_delivered_and_the_tools_in_order_of_first_use(
    transport: Transport,
) {
    let answer = "Nothing is wrong.\n\nArtifacts:\n- report.md\n- `logs/today.txt`";
    let script = Script::new()
        .on(When::assignment("Read the logs"))
        .then(tool_call("lookup", json!({"word": "a"})))
        .then(
            tool_call("made_up", json!({}))
                .and_call("shared_context", json!({"action": "list_keys"})),
        )
        .then(
            tool_call("lookup", json!({"word": "b"}))
                .and_call("read_file", json!({"path": "notes.txt"})),
        )
        .then(text(answer));
    let dispatcher = Dispatcher::new(transport, script).await;
    let reply = dispatcher
        .dispatch(ad_hoc(json!({
            "instructions": "  Read the logs.\n", "expected_artifacts": [" report.md "],
            "plan_step_id": null, "snapshot_version": "1",
        })))
        .await;
    let value = json!({
        "success": true, "message": "Nothing is wrong.",
        "prompt_ns": "research", "prompt_key": "logs", "message_summary": "Nothing is wrong.",
        "artifacts": ["report.md", "logs/today.txt"], "tools_used": ["lookup", "shared_context", "read_file"],
    });
    assert_eq!(
        reply,
        Reply { status: 200, value, text: "Nothing is wrong.".to_owned(), is_error: false }
    );
    let requests = dispatcher.fleet.model.requests_of("Read the logs.");
    assert_eq!(
        requests.len(),
        4,
        "the assignment is the instructions, without the blanks around them"
    );
    assert_eq!(
        dispatcher
            .fleet
            .world
            .count("select count(*) from task where agent = 'research--logs'")
            .await,
        1
    );
    dispatcher.fleet.close().await;
}

async fn row_4_6_and_4_8_a_child_starts_with_a_snapshot_and_leaves_nothing(transport: Transport) {
    let script = Script::new()
        .on(When::assignment("Execute the step"))
        .then(tool_call("shared_context", context("read", None)))
        .then(tool_call("shared_context", context("write", Some("the child's"))))
        .then(tool_call("shared_context", context("read", None)))
        .then(text("The step is done."));
    let dispatcher = Dispatcher::new(transport, script).await;
    dispatcher.context(context("write", Some("the parent's"))).await;
    let before = dispatcher.context(json!({"action": "list_keys"})).await;
    let step =
        json!({"mode": "plan_step", "plan_step_id": "S001", "instructions": "Execute the step."});
    let reply = dispatcher.dispatch(ad_hoc(step)).await;
    assert_eq!((reply.text.as_str(), reply.is_error), ("The step is done.", false), "{reply:?}");
    assert_eq!(reply.value["artifacts"], json!([]));
    assert_eq!(
        dispatcher.context(json!({"action": "list_keys"})).await,
        before,
        "the parent is as it was"
    );
    assert_eq!(dispatcher.context(context("read", None)).await["value"], "the parent's");
    let task = sqlx::query_scalar("select id from task")
        .fetch_one(&dispatcher.fleet.world.sql)
        .await
        .unwrap();
    let done = dispatcher.fleet.done(adjutant_agent::TaskId(task)).await;
    let read = |turn: usize| -> Value { serde_json::from_str(&done.results_of(turn)[0]).unwrap() };
    assert_eq!(
        (&read(1)["value"], &read(3)["value"]),
        (&json!("the parent's"), &json!("the child's"))
    );
    let record = dispatcher.fleet.world.store.task("tenant", done.task).await.unwrap();
    assert_eq!(
        (record.entry.session_id.as_str(), record.entry.task.label.as_deref()),
        (SESSION, Some("S001"))
    );
    assert_eq!(record.metadata["plan_step_id"], "S001", "for whoever keeps the plan");
    let overlays = "select count(*) from context_entry where session < 0";
    assert_eq!(dispatcher.fleet.world.count(overlays).await, 0, "its state is discarded");
    dispatcher.fleet.close().await;
}

async fn row_4_10_a_run_that_fails_is_a_message_without_a_result(transport: Transport) {
    let script = Script::new().on(When::assignment("Read the logs")).then(status(400));
    let dispatcher = Dispatcher::new(transport, script).await;
    dispatcher.context(context("write", Some("the parent's"))).await;
    let reply = dispatcher.dispatch(ad_hoc(json!({}))).await;
    assert!(
        reply.is_error && reply.text.starts_with("Subagent execution failed: Model API error: "),
        "{reply:?}"
    );
    let value = json!({"success": false, "error": "DispatchSubagentError", "message": reply.text});
    assert_eq!(reply.value, value);
    assert_eq!(
        dispatcher.context(context("read", None)).await["version"],
        1,
        "the parent is untouched"
    );
    let overlays = "select count(*) from context_entry where session < 0";
    assert_eq!(dispatcher.fleet.world.count(overlays).await, 0, "discarded after an error too");
    dispatcher.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn row_4_7_the_child_has_every_tool_of_its_parent_and_none_to_delegate_with() {
    let script = Script::new().on(When::any()).then(text("Done."));
    let dispatcher = Dispatcher::new(Transport::Service, script).await;
    dispatcher.dispatch(ad_hoc(json!({"expected_artifacts": ["report.md"]}))).await;
    let requests = dispatcher.fleet.model.requests_of("Read the logs.");
    let body = requests[0].body.as_ref().unwrap();
    let mut given: Vec<&str> = body["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["function"]["name"].as_str().unwrap())
        .collect();
    given.sort_unstable();
    let published = dispatcher.fleet.world.store.tools().await.unwrap();
    let published: Vec<&str> = published.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(given, published, "whatever its own list says");
    assert!(
        given.contains(&"pay") && given.contains(&"shared_context") && !given.contains(&"subagent")
    );
    let system = body["messages"][0]["content"].as_str().unwrap();
    assert!(system.starts_with("You read logs.\n\n"), "{system}");
    assert!(system.contains("- report.md\n") && system.contains("You are a subagent."), "{system}");
    dispatcher.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_prompt_of_a_child_on_a_snapshot_lists_its_keys_and_asks_for_findings_in_the_answer() {
    let script = Script::new().on(When::any()).then(text("Done."));
    let dispatcher = Dispatcher::new(Transport::Service, script).await;
    dispatcher.context(context("write", Some("the parent's"))).await;
    dispatcher.dispatch(ad_hoc(json!({}))).await;
    let requests = dispatcher.fleet.model.requests_of("Read the logs.");
    let body = requests[0].body.as_ref().unwrap();
    let system = body["messages"][0]["content"].as_str().unwrap();
    assert!(
        system.contains("Its keys are 1, with 3 tokens in total:\n- plan (3 tokens)"),
        "{system}"
    );
    assert!(system.contains("Put your findings into your final response"), "{system}");
    assert!(!system.contains("Write detailed findings to shared context"), "{system}");
    dispatcher.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dispatch_with_the_same_key_is_one_run() {
    let script = Script::new().on(When::any()).then(text("Done."));
    let dispatcher = Dispatcher::new(Transport::Http, script).await;
    let first = dispatcher.dispatch_with_key(ad_hoc(json!({})), "k").await;
    assert_eq!(dispatcher.dispatch_with_key(ad_hoc(json!({})), "k").await, first);
    assert_eq!(dispatcher.fleet.world.count("select count(*) from task").await, 1);
    dispatcher.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_cancelled_or_runs_out_of_turns_has_failed() {
    let script = Script::new()
        .on(When::assignment("Read the logs"))
        .then(tool_call("lookup", json!({"word": "1"})))
        .then(tool_call("lookup", json!({"word": "2"})))
        .then(tool_call("lookup", json!({"word": "3"})))
        .then(text("So far.").and_call("lookup", json!({"word": "4"})))
        .on(When::assignment("Hold"))
        .then(tool_call("held", json!({"word": "x"})));
    let dispatcher = Dispatcher::new(Transport::Service, script).await;
    let reply = dispatcher.dispatch(ad_hoc(json!({}))).await;
    let message =
        "Subagent execution failed: Max turns exceeded without producing a final response";
    assert_eq!((reply.text.as_str(), reply.is_error), (message, true));
    let dispatching = dispatcher.dispatch(ad_hoc(json!({"instructions": "Hold it."})));
    let cancelling = async {
        crate::support::world::until("it holds", async || {
            !dispatcher.fleet.tools.calls_of("held").is_empty()
        })
        .await;
        let number = adjutant_agent::TaskNumber(2);
        dispatcher.fleet.world.store.cancel_by_number(dispatcher.session, number).await.unwrap();
    };
    let (reply, ()) = tokio::join!(dispatching, cancelling);
    assert_eq!(reply.text, "Subagent execution failed: Task cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn grandchildren_work_on_the_childs_snapshot_and_not_on_the_session() {
    let script = Script::new()
        .on(When::system("You are a lead."))
        .then(spawn("hand", "Note it."))
        .then(wait("any"))
        .then(tool_call("shared_context", context("read", None)))
        .then(text("It says: {results/0/value}"))
        .on(When::system("You are a hand."))
        .then(tool_call("shared_context", context("write", Some("the hand's"))))
        .then(text("Noted."));
    let dispatcher = Dispatcher::new(Transport::Service, script).await;
    dispatcher.context(context("write", Some("the parent's"))).await;
    let reply = dispatcher.dispatch(ad_hoc(json!({"prompt_key": "lead"}))).await;
    assert_eq!(reply.value["message_summary"], "It says: the hand's", "{reply:?}");
    assert_eq!(reply.value["tools_used"], json!(["subagent", "shared_context"]));
    assert_eq!(dispatcher.context(context("read", None)).await["value"], "the parent's");
    let overlays = "select count(*) from context_entry where session < 0";
    assert_eq!(dispatcher.fleet.world.count(overlays).await, 0);
    dispatcher.fleet.close().await;
}
