//! Models that fail: transient errors are retried, permanent ones fail the task.

use adjutant_agent::TaskState;
use adjutant_script::{Answer, Fault, Script, When, fault, status, text};
use serde_json::json;

use crate::support::fleet::{CLERK, Fleet};

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_that_may_pass_is_tried_again_and_the_answer_is_stored_once() {
    let failures: [(&str, Answer); 12] = [
        ("an overload", status(529)),
        ("an internal error", status(500)),
        ("a bad gateway", status(502).with_body("<html>Bad gateway</html>")),
        ("an outage", status(503)),
        ("a request time-out", status(408)),
        ("a connection that is closed", fault(Fault::DropBeforeHeaders)),
        ("a stream that is cut", fault(Fault::DropHalfway)),
        ("a stream that ends early", fault(Fault::EndHalfway)),
        ("half of an event", fault(Fault::HalfJson)),
        ("an event that is not JSON", fault(Fault::MalformedJson)),
        ("an error in the stream", fault(Fault::ErrorHalfway)),
        (
            "an error in the stream that says so",
            fault(Fault::ErrorHalfway).with_error("api_error", "Internal"),
        ),
    ];
    let mut script = Script::new();
    for (name, failure) in &failures {
        script = script
            .on(When::assignment(format!("after {name}.")))
            .then(text("I look it up.").and_call("lookup", json!({})))
            .then([failure.clone(), text("At last.")]);
    }
    let fleet = Fleet::new(script).await;
    let _worker = fleet.worker();
    let mut tasks = Vec::new();
    for (name, _) in &failures {
        tasks.extend(fleet.give_on_both(CLERK, &format!("Go on after {name}.")).await);
    }
    for task in tasks {
        let done = fleet.done(task).await;
        done.assert_completed("At last.");
        assert_eq!(
            (done.turns.len(), done.requests.len(), done.attempt),
            (2, 3, 1),
            "{}",
            done.assignment
        );
        assert_eq!(fleet.tools.calls_by(task, "lookup").len(), 1);
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_of_the_provider_fails_the_task_at_once_and_keeps_the_text() {
    let refusals: [(&str, u16, &str); 3] = [
        ("a bad request", 400, "400 invalid_request_error: No such parameter"),
        ("a model that is not there", 404, "404 not_found_error: Where is it"),
        ("what cannot be processed", 422, "422 invalid_request_error: What is this"),
    ];
    let mut script = Script::new();
    for (name, code, details) in &refusals {
        let (kind, message) = details.split_once(' ').unwrap().1.split_once(": ").unwrap();
        script = script
            .on(When::assignment(format!("after {name}.")))
            .then(text("So far, so good.").and_call("lookup", json!({})))
            .then(status(*code).with_error(kind, message));
    }
    let fleet = Fleet::new(script).await;
    let _worker = fleet.worker();
    let mut tasks = Vec::new();
    for (name, _, details) in &refusals {
        let [openai, anthropic] = fleet.give_on_both(CLERK, &format!("End after {name}.")).await;
        tasks.extend([(openai, "openai", details), (anthropic, "anthropic", details)]);
    }
    for (task, model, details) in tasks {
        let done = fleet.done(task).await;
        done.assert_model_failed(&fleet, model, details);
        assert_eq!(done.partial_result.as_deref(), Some("So far, so good."));
        assert_eq!((done.requests.len(), done.turns_used), (2, 1));
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_whose_model_no_worker_has_waits_and_holds_up_no_other() {
    let fleet = Fleet::new(Script::new().on(When::any()).then(text("Here I am."))).await;
    let _worker = fleet.worker();
    let task = fleet.give("gone", CLERK, "Ask who is not there.").await;
    let other = fleet.give("openai", CLERK, "Ask who is there.").await;
    fleet.done(other).await.assert_completed("Here I am.");
    assert_eq!(fleet.state(task).await, TaskState::Queued);
    assert_eq!(fleet.look_at(task).await.attempt, 0);
    fleet.world.store.cancel(task).await.unwrap();
    fleet.close().await;
}
