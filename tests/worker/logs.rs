//! The log of a worker.

use adjutant_script::{Script, When, status, text, tool_call};
use serde_json::json;

use crate::support::fleet::{CLERK, Fleet, KEY, WIRES};
use crate::support::worker_process::WorkerProcess;

#[tokio::test(flavor = "multi_thread")]
async fn no_key_and_no_payload_is_logged_at_any_level() {
    let repeats = format!("You sent ASSIGNMENT-WORDS with {KEY}, and I repeat it: BODY-WORDS");
    let script = Script::new()
        .on(When::assignment("refused"))
        .then(status(400).with_error("invalid_request_error", &repeats))
        .on(When::assignment("limited"))
        .then([
            status(429).retry_after(0.1).with_error("rate_limit_error", &repeats),
            text("ANSWER-WORDS"),
        ])
        .on(When::any())
        .then(text("ANSWER-WORDS").and_call("lookup", json!({"word": "ARGUMENT-WORDS"})))
        .then(tool_call(
            "shared_context",
            json!({"action": "write", "key": "k", "value": "VALUE-WORDS"}),
        ))
        .then(
            tool_call("lookup", json!({"word": "ARGUMENT-WORDS"}))
                .and_call("broken", json!({"word": "ARGUMENT-WORDS"})),
        )
        .then(text("RESULT-WORDS"));
    let fleet = Fleet::with(script, |_| {
        "[agents.secretive]\ndescription = \"DESCRIPTION-WORDS\"\nsystem_prompt = \"PROMPT-WORDS\"\ntools = [\"lookup\", \"broken\", \"shared_context\"]\n".to_owned()
    })
    .await;
    let worker = WorkerProcess::start(fleet.work().args(["--log", "trace"]));
    for done in fleet.run_on_both("secretive", "ASSIGNMENT-WORDS").await {
        done.assert_completed("RESULT-WORDS");
        assert!(done.requests.iter().all(|request| request.has_key(KEY)), "the key is sent");
    }
    for done in fleet.run_on_both(CLERK, "ASSIGNMENT-WORDS to be limited").await {
        done.assert_completed("ANSWER-WORDS");
    }
    let refused = fleet.run_on_both(CLERK, "ASSIGNMENT-WORDS to be refused").await;
    for (done, model) in refused.into_iter().zip(WIRES) {
        let said = repeats.replace(KEY, "***");
        done.assert_model_failed(&fleet, model, &format!("400 invalid_request_error: {said}"));
        worker.until_logged(&format!("model call for task {} failed, giving up", done.task)).await;
    }
    worker.until_logged("called lookup").await;
    let said = worker.stderr();
    let spoken = said.lines().find(|line| line.contains("-WORDS") || line.contains(KEY));
    assert_eq!(spoken, None);
    assert!(said.contains("400 invalid_request_error"), "what failed is said");
    fleet.close().await;
}
