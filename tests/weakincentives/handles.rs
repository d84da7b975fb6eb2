use std::time::Duration;

use adjutant_script::{Script, When, text, tool_call};
use serde_json::json;

use super::place::{Kind, Place, ad_hoc};

#[tokio::test(flavor = "multi_thread")]
async fn a_dispatch_that_takes_longer_than_a_call_may_answers_with_a_handle_and_goes_on() {
    let script = Script::new()
        .on(When::any())
        .then(tool_call("held", json!({"word": "x"})))
        .then(text("It took long.\nArtifacts:\n- report.md"));
    let place = Place::waiting(Duration::from_millis(300), script).await;
    let said = place.dispatch(ad_hoc(json!({}))).await;
    assert_eq!((&said.value["task_id"], said.is_error), (&json!("t_01"), false), "{said:?}");
    assert_eq!(said.value["message"], json!(said.text));
    assert!(said.text.contains("Call dispatch_subagent with {\"task_id\": \"t_01\"}"), "{}", said.text);
    for field in ["success", "message_summary", "artifacts", "tools_used"] {
        assert!(said.value.get(field).is_none(), "there is no result yet: {said:?}");
    }
    place.work.tools.let_go();
    let mut last = place.dispatch(json!({"task_id": "t_01"})).await;
    while last.value.get("success").is_none() {
        last = place.dispatch(ad_hoc(json!({"task_id": "t_01"}))).await;
    }
    assert_eq!(last.text, "It took long.");
    assert_eq!(
        (&last.value["tools_used"], &last.value["artifacts"]),
        (&json!(["held"]), &json!(["report.md"]))
    );
    assert_eq!(place.dispatch(json!({"task_id": "t_01"})).await, last, "as often as one likes");
    place.work.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_killed_in_a_dispatch_changes_no_answer() {
    let script = Script::new()
        .on(When::any())
        .then(tool_call("shared_context", json!({"action": "write", "key": "notes", "value": "a"})))
        .then(tool_call("shared_context", json!({"action": "read", "key": "notes"})))
        .then(text("Read it back."));
    let place = Place::unmanned(Kind::Desk, script).await;
    let mut doomed = place.work.doomed("default", "tool_stored:kill");
    let rescuing = async {
        doomed.killed_itself().await;
        place.work.worker()
    };
    let (said, _rescuer) = tokio::join!(place.dispatch(ad_hoc(json!({}))), rescuing);
    assert_eq!(
        (said.text.as_str(), &said.value["tools_used"]),
        ("Read it back.", &json!(["shared_context"]))
    );
    assert_eq!(place.work.world.count("select attempt::bigint from task").await, 2);
    place.work.close().await;
}
