use super::*;
use crate::test_turns::says;
use crate::{Answer, Block, Compaction, MAX_TOOL_CALLS, Message};

fn agent() -> AgentConfig {
    AgentConfig {
        system_prompt: "You look things up.".into(),
        max_turns: 3,
        ..AgentConfig::default()
    }
}

fn with_summary() -> AgentConfig {
    AgentConfig { summary_prompt: Some("Sum up.".into()), ..agent() }
}

fn conversation(agent: &AgentConfig) -> Conversation<'_> {
    Conversation {
        agent,
        earlier: &[],
        assignment: "Find it.",
        window: None,
        waits: |_, _| false,
        compaction: Compaction::Off,
        too_long: None,
    }
}

fn request_of<'a>(
    agent: &'a AgentConfig,
    turns: &'a [StoredTurn],
    expected: TurnKind,
) -> Request<'a> {
    let Next::CallModel { kind, request } = next(&conversation(agent), turns, 1) else {
        panic!("no call")
    };
    assert_eq!(kind, expected);
    request
}

fn outcome_of(agent: &AgentConfig, turns: &[StoredTurn]) -> Outcome {
    let Next::Finish(outcome) = next(&conversation(agent), turns, 1) else { panic!("no end") };
    outcome
}

fn calls_of<'a>(
    agent: &'a AgentConfig,
    turns: &'a [StoredTurn],
    attempt: i32,
) -> Vec<PendingCall<'a>> {
    let Next::RunTools(calls) = next(&conversation(agent), turns, attempt) else {
        panic!("no calls")
    };
    calls
}

fn completes(result: &str, summary: Option<&str>) -> Outcome {
    Outcome::Completed { result: result.to_owned(), summary: summary.map(str::to_owned) }
}

fn fails(failure: FailureKind, error: &str, partial: Option<&str>) -> Outcome {
    Outcome::Failed { failure, error: error.to_owned(), partial_result: partial.map(str::to_owned) }
}

fn user(text: &str) -> Message<'_> {
    Message::User(text.into())
}

#[test]
fn the_first_call_has_the_assignment_and_the_suffix_and_nothing_else() {
    let agent = agent();
    let request = request_of(&agent, &[], TurnKind::Turn);
    assert_eq!(
        request.system,
        "You look things up.\n\nYou are a subagent. Keep your final response concise (under 1000 tokens). Write detailed findings to shared context rather than including them in your response. Your response will be returned to the orchestrator as a summary of your work."
    );
    assert_eq!(request.messages, [user("Find it.")]);
    assert!(request.with_tools);
}

#[test]
fn an_answer_without_calls_is_the_result() {
    assert_eq!(outcome_of(&agent(), &[says("Found.\n")]), completes("Found.\n", None));
}

#[test]
fn all_calls_of_an_answer_need_a_result_before_the_next_call() {
    let agent = agent();
    let calls = says("Looking.").calling(&["a", "b"]);
    let ids = |turns: &[StoredTurn]| {
        let calls = calls_of(&agent, turns, 1);
        calls.iter().map(|pending| pending.call.id.clone()).collect::<Vec<_>>()
    };
    assert_eq!(ids(std::slice::from_ref(&calls)), ["a", "b"]);
    assert_eq!(ids(&[calls.clone().with_result("b", "2")]), ["a"]);

    let done = [calls.with_result("b", "2").with_result("a", "1")];
    let request = request_of(&agent, &done, TurnKind::Turn);
    let [Message::User(_), Message::Assistant(answer), Message::ToolResults(outputs)] =
        &request.messages[..]
    else {
        panic!("{request:?}");
    };
    assert_eq!(*answer, &done[0].turn.answer);
    let outputs: Vec<_> = outputs.iter().map(|output| (output.call, &*output.content)).collect();
    assert_eq!(
        outputs,
        [("a", "1"), ("b", "2")],
        "in the order of the calls, not of their arrival"
    );
}

#[test]
fn a_call_of_an_earlier_attempt_may_have_run() {
    let agent = agent();
    let turns = [says("").calling(&["a"]).in_attempt(2)];
    for (attempt, expected) in [(2, false), (3, true)] {
        assert_eq!(calls_of(&agent, &turns, attempt)[0].may_have_run, expected);
    }
}

#[test]
fn the_last_allowed_turn_must_be_the_end() {
    let looks = || says("Looking.").calling(&["a"]).with_result("a", "1");
    let exceeded = |partial| {
        fails(
            FailureKind::MaxTurns,
            "Max turns exceeded without producing a final response",
            partial,
        )
    };
    let last_wants_tools = [looks(), looks(), says("Nearly.").calling(&["a"])];
    assert_eq!(
        outcome_of(&agent(), &last_wants_tools),
        exceeded(Some("Nearly.")),
        "and its tools are not run"
    );

    let last_is_silent = [looks(), looks(), says("").calling(&["a"])];
    assert_eq!(
        outcome_of(&agent(), &last_is_silent),
        exceeded(Some("Looking.")),
        "the last text of any turn"
    );

    let never_spoke = AgentConfig { max_turns: 1, ..agent() };
    assert_eq!(outcome_of(&never_spoke, &[says(" ").calling(&["a"])]), exceeded(None));

    let last_answers = [looks(), looks(), says("Found.")];
    assert_eq!(outcome_of(&agent(), &last_answers), completes("Found.", None));

    let last_is_cut = [
        looks(),
        says("One, ").stopped(StopReason::MaxTokens),
        says("two, ").stopped(StopReason::MaxTokens),
    ];
    assert_eq!(outcome_of(&agent(), &last_is_cut), exceeded(Some("One, two, ")));
}

#[test]
fn an_agent_has_one_turn_at_least() {
    let agent = AgentConfig { max_turns: 0, ..agent() };
    request_of(&agent, &[], TurnKind::Turn);
    assert_eq!(outcome_of(&agent, &[says("Found.")]), completes("Found.", None));
}

#[test]
fn a_text_that_was_cut_off_is_continued_and_joined() {
    let agent = agent();
    let cut = || says("One, ").stopped(StopReason::MaxTokens);
    let turns = [cut()];
    let request = request_of(&agent, &turns, TurnKind::Turn);
    assert_eq!(
        request.messages,
        [user("Find it."), Message::Assistant(&turns[0].turn.answer), user(prompts::CONTINUE)]
    );
    assert!(request.with_tools);
    let white = || says("\n").stopped(StopReason::MaxTokens);
    assert_eq!(outcome_of(&agent, &[cut(), white(), says("two.")]), completes("One, \ntwo.", None));
    assert_eq!(
        outcome_of(&agent, &[cut(), says("")]),
        completes("One, ", None),
        "there was nothing to add"
    );
    let looked_between = [cut().calling(&["a"]).with_result("a", "1"), says("two.")];
    assert_eq!(outcome_of(&agent, &looked_between), completes("two.", None), "calls end an answer");
}

#[test]
fn an_empty_answer_is_asked_for_once_more_also_after_the_last_turn() {
    for max_turns in [1, 3] {
        let agent = AgentConfig { max_turns, ..agent() };
        let empty = [says(" \n")];
        let request = request_of(&agent, &empty, TurnKind::AskAgain);
        let stand_in = Answer::of_text(prompts::EMPTY_ANSWER);
        assert_eq!(
            request.messages,
            [user("Find it."), Message::Assistant(&stand_in), user(prompts::ASK_AGAIN)]
        );
        assert!(!request.with_tools);

        let again = |text| [says(""), says(text).of_kind(TurnKind::AskAgain)];
        assert_eq!(outcome_of(&agent, &again("Found.")), completes("Found.", None));
        for nothing in ["", "\t", prompts::EMPTY_ANSWER] {
            assert_eq!(
                outcome_of(&agent, &again(nothing)),
                fails(FailureKind::EmptyResult, prompts::EMPTY_RESULT, None)
            );
        }
    }
}

#[test]
fn an_answer_of_nothing_but_thoughts_is_empty() {
    let agent = agent();
    let mut thought = says("").stopped(StopReason::MaxTokens);
    thought.turn.answer.content =
        vec![Block::Opaque { wire: "anthropic".into(), value: serde_json::json!({}) }];
    request_of(&agent, std::slice::from_ref(&thought), TurnKind::AskAgain);
}

#[test]
fn an_answer_to_the_second_asking_goes_on_like_any_other() {
    let agent = agent();
    let again = |text: &str| says(text).of_kind(TurnKind::AskAgain);
    let cut = [says(""), again("One, ").stopped(StopReason::MaxTokens)];
    request_of(&agent, &cut, TurnKind::Turn);
    let calls = [says(""), again("").calling(&["a"])];
    assert_eq!(calls_of(&agent, &calls, 1).len(), 1);
    let looked = says("").of_kind(TurnKind::AskAgain).calling(&["a"]).with_result("a", "1");
    assert_eq!(
        outcome_of(&agent, &[says(""), looked, says("")]),
        fails(FailureKind::EmptyResult, prompts::EMPTY_RESULT, None),
        "there is only one second request"
    );
}

#[test]
fn a_refusal_fails_with_what_was_said() {
    let error = "Model API error: the model refused to answer";
    let refused = |text| says(text).stopped(StopReason::Refusal);
    assert_eq!(
        outcome_of(&agent(), &[refused("I won't.")]),
        fails(FailureKind::Model, error, Some("I won't."))
    );
    assert_eq!(outcome_of(&agent(), &[refused("")]), fails(FailureKind::Model, error, None));
    let calling = refused("I won't.").calling(&["a"]);
    assert_eq!(
        outcome_of(&agent(), &[calling]),
        fails(FailureKind::Model, error, Some("I won't."))
    );
    let again = [says(""), refused("").of_kind(TurnKind::AskAgain)];
    assert_eq!(outcome_of(&agent(), &again), fails(FailureKind::Model, error, None));
}

#[test]
fn a_summary_is_asked_for_when_there_is_a_result() {
    let agent = with_summary();
    let turns = [says("Found.")];
    let request = request_of(&agent, &turns, TurnKind::Summary);
    assert_eq!(
        request.messages,
        [user("Find it."), Message::Assistant(&turns[0].turn.answer), user("Sum up.")]
    );
    assert!(!request.with_tools);

    let summed = |summary: StoredTurn| [says("Found."), summary.of_kind(TurnKind::Summary)];
    assert_eq!(outcome_of(&agent, &summed(says(" Short. "))), completes("Found.", Some("Short.")));
    assert_eq!(outcome_of(&agent, &summed(says(" "))), completes("Found.", None));
    assert_eq!(
        outcome_of(&agent, &summed(says("No.").stopped(StopReason::Refusal))),
        completes("Found.", None)
    );
    assert_eq!(
        outcome_of(&agent, &summed(says("Sh").stopped(StopReason::MaxTokens))),
        completes("Found.", Some("Sh"))
    );
    assert_eq!(
        outcome_of(&agent, &summed(says("S").calling(&["a"]))),
        completes("Found.", Some("S"))
    );

    let failed = [says(""), says("").of_kind(TurnKind::AskAgain)];
    assert!(matches!(outcome_of(&agent, &failed), Outcome::Failed { .. }), "none without a result");
    let blank = AgentConfig { summary_prompt: Some(" ".into()), ..agent };
    assert_eq!(outcome_of(&blank, &[says("Found.")]), completes("Found.", None));
}

#[test]
fn an_envelope_gives_result_and_summary() {
    let text = "<subagent_background_result><summary>Short.</summary><full_result>Long.</full_result></subagent_background_result>";
    assert_eq!(outcome_of(&agent(), &[says(text)]), completes("Long.", Some("Short.")));
    let (start, end) = text.split_at(40);
    let cut = [says(start).stopped(StopReason::MaxTokens), says(end)];
    assert_eq!(outcome_of(&agent(), &cut), completes("Long.", Some("Short.")));

    let answers = |summary| [says(text), says(summary).of_kind(TurnKind::Summary)];
    assert_eq!(outcome_of(&with_summary(), &answers("Asked.")), completes("Long.", Some("Asked.")));
    assert_eq!(outcome_of(&with_summary(), &answers("")), completes("Long.", Some("Short.")));
}

#[test]
fn giving_up_keeps_what_was_said_and_loses_no_result() {
    let looking = [says("Looking.").calling(&["a"])];
    assert_eq!(
        give_up(&looking, FailureKind::Timeout, "Too slow"),
        fails(FailureKind::Timeout, "Too slow", Some("Looking."))
    );
    assert_eq!(give_up(&[], FailureKind::Budget, "None"), fails(FailureKind::Budget, "None", None));
    assert_eq!(
        give_up(&[says("Found.")], FailureKind::Model, "No summary"),
        completes("Found.", None)
    );
}

#[test]
fn only_turns_of_the_loop_count() {
    let turns = [
        says("").calling(&["a"]).with_result("a", "1"),
        says(""),
        says("Found.").of_kind(TurnKind::AskAgain),
        says("Short.").of_kind(TurnKind::Summary),
    ];
    assert_eq!(turns_used(&turns), 2);
}

#[test]
fn a_silent_tool_and_a_call_that_was_not_made_have_a_text() {
    let agent = agent();
    let silent = [says("").calling(&["a"]).with_result("a", " ")];
    let request = request_of(&agent, &silent, TurnKind::Turn);
    let Some(Message::ToolResults(outputs)) = request.messages.last() else {
        panic!("{request:?}")
    };
    assert_eq!(outputs[0].content, prompts::EMPTY_TOOL_RESULT);

    // No task makes such a request by itself; one that goes on from another's conversation does.
    let unmade = [says("").calling(&["a"]), says("Next.").stopped(StopReason::MaxTokens)];
    let request = request_of(&agent, &unmade, TurnKind::Turn);
    let Message::ToolResults(outputs) = &request.messages[2] else { panic!("{request:?}") };
    assert_eq!((&*outputs[0].content, outputs[0].is_error), (prompts::NOT_MADE, true));
}

#[test]
fn at_most_32_calls_of_an_answer_are_made_and_the_others_get_an_error() {
    let ids: Vec<String> = (1..=40).map(|nth| format!("c{nth}")).collect();
    let names: Vec<&str> = ids.iter().map(String::as_str).collect();
    let agent = agent();
    let mut turns = vec![says("").calling(&names)];
    let made: Vec<String> =
        calls_of(&agent, &turns, 1).iter().map(|pending| pending.call.id.clone()).collect();
    assert_eq!(made, ids[..MAX_TOOL_CALLS]);
    // A call beyond the limit is not waited for either.
    let waits = Conversation { waits: |_, call| call.id == "c33", ..conversation(&agent) };
    assert!(matches!(next(&waits, &turns, 1), Next::RunTools(calls) if calls.len() == 32));
    for id in &ids[..MAX_TOOL_CALLS] {
        turns[0] = turns[0].clone().with_result(id, "found");
    }
    let request = request_of(&agent, &turns, TurnKind::Turn);
    let Some(Message::ToolResults(results)) = request.messages.last() else { panic!("no results") };
    assert_eq!(results.len(), 40, "model APIs want a result for every call");
    for (nth, result) in results.iter().enumerate() {
        let expected = if nth < MAX_TOOL_CALLS { "found" } else { prompts::TOO_MANY_CALLS };
        assert_eq!((&*result.content, result.is_error), (expected, nth >= MAX_TOOL_CALLS));
    }
    assert!(prompts::TOO_MANY_CALLS.contains(&MAX_TOOL_CALLS.to_string()));
}
