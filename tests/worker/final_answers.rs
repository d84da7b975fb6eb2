//! The ends of loops: which answers are final, and how others are handled.

use adjutant_agent::{FailureKind, TurnKind, prompts};
use adjutant_script::{Script, When, empty, refusal, text, tool_call};
use serde_json::json;

use crate::support::fleet::{CLERK, Done, Fleet, WIRES};

fn kinds(done: &Done) -> Vec<TurnKind> {
    done.turns.iter().map(|stored| stored.turn.kind).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_cut_off_is_continued_and_joined() {
    let script = Script::new()
        .on(When::any())
        .then(text("The first half, ").with_stop("max_tokens"))
        .then(text("the second half.").with_stop("max_tokens"))
        .then(text(" And the end."));
    let fleet = Fleet::new(script).await;
    let _worker = fleet.worker();
    for done in fleet.run_on_both(CLERK, "Write at length").await {
        done.assert_completed("The first half, the second half. And the end.");
        assert_eq!(done.turns_used, 3);
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_answer_is_requested_once_more_and_then_fails() {
    let script = Script::new()
        .on(When::assignment("hesitate"))
        .then(empty())
        .then(text("All right."))
        .on(When::assignment("say nothing"))
        .then(tool_call("lookup", json!({})))
        .then(text(" \n "))
        .then(empty());
    let fleet = Fleet::new(script).await;
    let _worker = fleet.worker();
    for done in fleet.run_on_both(CLERK, "Please hesitate").await {
        done.assert_completed("All right.");
        assert_eq!(kinds(&done), [TurnKind::Turn, TurnKind::AskAgain]);
        assert_eq!(done.turns_used, 1, "one more try is no turn");
    }
    for done in fleet.run_on_both(CLERK, "Please say nothing").await {
        done.assert_failed(FailureKind::EmptyResult, prompts::EMPTY_RESULT);
        assert_eq!((done.turns_used, done.requests.len()), (2, 3));
        assert_eq!(done.partial_result, None);
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_a_failure_of_the_model() {
    let script = Script::new().on(When::any()).then(refusal("I will not."));
    let fleet = Fleet::new(script).await;
    let _worker = fleet.worker();
    let both = fleet.run_on_both(CLERK, "Do what should not be done").await;
    for (done, model) in both.into_iter().zip(WIRES) {
        done.assert_model_failed(&fleet, model, "the model refused to answer");
        assert_eq!((done.turns_used, done.requests.len()), (1, 1), "a refusal is not argued with");
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_is_requested_at_the_end_unless_the_answer_has_one() {
    let envelope = "<subagent_background_result><summary>In short.</summary><full_result>At length.</full_result></subagent_background_result>";
    let script = Script::new()
        .on(When::assignment("in two calls"))
        .then(tool_call("lookup", json!({})))
        .then(text("At length."))
        .on(When::last("What did you find?"))
        .answer(text("In short."))
        .on(When::assignment("in one"))
        .then(text(envelope));
    let fleet = Fleet::with(script, |_| {
        "[agents.summarist]\ndescription = \"Sums up\"\nsystem_prompt = \"You sum up.\"\nsummary_prompt = \"What did you find?\"\ntools = [\"lookup\"]\n".to_owned()
    })
    .await;
    let _worker = fleet.worker();
    for done in fleet.run_on_both("summarist", "Answer in two calls").await {
        done.assert_completed("At length.");
        assert_eq!(done.summary.as_deref(), Some("In short."));
        assert_eq!(kinds(&done), [TurnKind::Turn, TurnKind::Turn, TurnKind::Summary]);
        assert_eq!(done.turns_used, 2, "a summary is no turn");
    }
    for done in fleet.run_on_both(CLERK, "Answer in one").await {
        done.assert_completed("At length.");
        assert_eq!((done.summary.as_deref(), done.requests.len()), (Some("In short."), 1));
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_turn_without_an_answer_fails_and_keeps_the_text() {
    let script =
        Script::new().on(When::any()).answer(text("Step {turn}.").and_call("lookup", json!({})));
    let fleet = Fleet::with(script, |_| {
        "[agents.brief]\ndescription = \"Has no time\"\nsystem_prompt = \"You are brief.\"\ntools = [\"lookup\"]\nmax_turns = 2\n".to_owned()
    })
    .await;
    let _worker = fleet.worker();
    for done in fleet.run_on_both("brief", "Never end").await {
        done.assert_failed(
            FailureKind::MaxTurns,
            "Max turns exceeded without producing a final response",
        );
        assert_eq!(done.partial_result.as_deref(), Some("Step 2."));
        assert_eq!((done.turns_used, done.requests.len()), (2, 2));
        let calls = fleet.tools.calls_by(done.task, "lookup").len();
        assert_eq!(calls, 1, "nobody would read what the tools of the last turn say");
    }
    fleet.close().await;
}
