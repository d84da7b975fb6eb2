use std::time::Duration;

use adjutant_script::{Script, When, text, tool_call};
use serde_json::json;

use crate::dialects::weakincentives::dispatcher::{Dispatcher, ad_hoc};
use crate::support::tool_client::Transport;

#[tokio::test(flavor = "multi_thread")]
async fn a_dispatch_over_the_longest_wait_returns_a_handle_and_continues() {
    let script = Script::new()
        .on(When::any())
        .then(tool_call("held", json!({"word": "x"})))
        .then(text("It took long.\nArtifacts:\n- report.md"));
    let dispatcher = Dispatcher::with_longest_wait(Duration::from_millis(300), script).await;
    let reply = dispatcher.dispatch(ad_hoc(json!({}))).await;
    assert_eq!((&reply.value["task_id"], reply.is_error), (&json!("t_01"), false), "{reply:?}");
    assert_eq!(reply.value["message"], json!(reply.text));
    assert!(
        reply.text.contains("Call dispatch_subagent with {")
            && reply.text.contains("\"task_id\":\"t_01\"}"),
        "{}",
        reply.text
    );
    for field in ["success", "message_summary", "artifacts", "tools_used"] {
        assert!(reply.value.get(field).is_none(), "there is no result yet: {reply:?}");
    }
    dispatcher.fleet.tools.let_go();
    let mut last = dispatcher.dispatch(json!({"task_id": "t_01"})).await;
    while last.value.get("success").is_none() {
        last = dispatcher.dispatch(ad_hoc(json!({"task_id": "t_01"}))).await;
    }
    assert_eq!(last.text, "It took long.");
    assert_eq!(
        (&last.value["tools_used"], &last.value["artifacts"]),
        (&json!(["held"]), &json!(["report.md"]))
    );
    assert_eq!(
        dispatcher.dispatch(json!({"task_id": "t_01"})).await,
        last,
        "as often as one likes"
    );
    dispatcher.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_killed_in_a_dispatch_changes_no_answer() {
    let script = Script::new()
        .on(When::any())
        .then(tool_call("shared_context", json!({"action": "write", "key": "notes", "value": "a"})))
        .then(tool_call("shared_context", json!({"action": "read", "key": "notes"})))
        .then(text("Read it back."));
    let dispatcher = Dispatcher::without_worker(Transport::Service, script).await;
    let mut doomed = dispatcher.fleet.doomed("default", "tool_stored:kill");
    let rescuing = async {
        doomed.killed_itself().await;
        dispatcher.fleet.worker()
    };
    let (reply, _rescuer) = tokio::join!(dispatcher.dispatch(ad_hoc(json!({}))), rescuing);
    assert_eq!(
        (reply.text.as_str(), &reply.value["tools_used"]),
        ("Read it back.", &json!(["shared_context"]))
    );
    assert_eq!(dispatcher.fleet.world.count("select attempt::bigint from task").await, 2);
    dispatcher.fleet.close().await;
}
