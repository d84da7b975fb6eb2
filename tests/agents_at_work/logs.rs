//! What a worker says, and what it keeps to itself.

use adjutant_agent::FailureKind;
use adjutant_script::{Script, When, status, text, tool_call};
use serde_json::json;

use super::workplace::{CLERK, KEY, Workplace};
use crate::fleet::process::WorkerProcess;

#[tokio::test(flavor = "multi_thread")]
async fn no_key_and_no_word_of_task_model_or_tool_is_in_a_log_however_much_is_logged() {
    let repeats = format!("You sent ASSIGNMENT-WORDS with {KEY}, and I repeat it: BODY-WORDS");
    let script = Script::new()
        .on(When::assignment("refused"))
        .then(status(400).with_error("invalid_request_error", &repeats))
        .on(When::assignment("limited"))
        .then([status(429).retry_after(0.1).with_error("rate_limit_error", &repeats), text("ANSWER-WORDS")])
        .on(When::any())
        .then(text("ANSWER-WORDS").and_call("lookup", json!({"word": "ARGUMENT-WORDS"})))
        .then(tool_call("shared_context", json!({"action": "write", "key": "k", "value": "VALUE-WORDS"})))
        .then(
            tool_call("lookup", json!({"word": "ARGUMENT-WORDS"}))
                .and_call("broken", json!({"word": "ARGUMENT-WORDS"})),
        )
        .then(text("RESULT-WORDS"));
    let place = Workplace::with(script, |_| {
        "[agents.secretive]\ndescription = \"DESCRIPTION-WORDS\"\nsystem_prompt = \"PROMPT-WORDS\"\ntools = [\"lookup\", \"broken\", \"shared_context\"]\n".to_owned()
    })
    .await;
    let worker = WorkerProcess::start(place.work().args(["--log", "trace"]));
    for done in place.run_on_both("secretive", "ASSIGNMENT-WORDS").await {
        done.assert_completed("RESULT-WORDS");
        assert!(done.requests.iter().all(|request| request.has_key(KEY)), "the key is sent");
    }
    for done in place.run_on_both(CLERK, "ASSIGNMENT-WORDS to be limited").await {
        done.assert_completed("ANSWER-WORDS");
    }
    for done in place.run_on_both(CLERK, "ASSIGNMENT-WORDS to be refused").await {
        let said = repeats.replace(KEY, "***");
        let error = format!("Model API error: 400 invalid_request_error: {said}");
        done.assert_failed(FailureKind::Model, &error);
        worker.says(&format!("a call for task {} failed for good", done.task)).await;
    }
    worker.says("called lookup").await;
    let said = worker.said();
    let spoken = said.lines().find(|line| line.contains("-WORDS") || line.contains(KEY));
    assert_eq!(spoken, None);
    assert!(said.contains("400 invalid_request_error"), "what failed is said");
    place.close().await;
}
