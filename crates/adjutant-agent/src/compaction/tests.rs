use super::*;
use crate::test_turns::says;
use crate::{
    AgentConfig, ContextWindow, EarlierTask, FailureKind, Message, Next, Outcome, Request, give_up,
    next, prompts, turns_used,
};

/// A limit of 7000 tokens.
const WINDOW: ContextWindow = ContextWindow { context_tokens: 10_000, max_output_tokens: 2_500 };

fn agent() -> AgentConfig {
    AgentConfig {
        system_prompt: "You look things up.".into(),
        max_turns: 100,
        ..AgentConfig::default()
    }
}

fn conversation(agent: &AgentConfig) -> Conversation<'_> {
    let compaction = Compaction::On;
    let window = Some(WINDOW);
    let waits = |_: &_, _: &_| false;
    let (earlier, assignment) = (&[], "Find it.");
    Conversation { agent, earlier, assignment, window, waits, compaction, too_long: None }
}

/// A turn with one result of so many bytes.
fn looked(bytes: usize) -> StoredTurn {
    says("Looking.").calling(&["a"]).with_result("a", "x".repeat(bytes))
}

fn compaction(text: &str) -> StoredTurn {
    says(text).of_kind(TurnKind::Compaction)
}

#[track_caller]
fn call<'a>(
    conversation: &Conversation<'a>,
    turns: &'a [StoredTurn],
    expected: TurnKind,
) -> Request<'a> {
    let Next::CallModel { kind, request } = next(conversation, turns, 1) else { panic!("no call") };
    assert_eq!(kind, expected);
    request
}

fn texts(request: &Request<'_>) -> Vec<String> {
    let text = |message: &Message<'_>| match message {
        Message::User(text) => text.to_string(),
        Message::Assistant(answer) => answer.text().unwrap_or_default(),
        Message::ToolResults(outputs) => format!("{} results", outputs.len()),
    };
    request.messages.iter().map(text).collect()
}

#[test]
fn a_conversation_that_nears_the_window_is_summed_up_and_continued_from_its_summary() {
    let agent = agent();
    let conversation = conversation(&agent);
    let mut turns = vec![looked(9_000), looked(9_000)];
    let before = call(&conversation, &turns, TurnKind::Turn);
    assert!(turns_fit(&before));
    drop(before);
    turns.push(looked(9_000));
    let request = call(&conversation, &turns, TurnKind::Compaction);
    assert!(request.with_tools, "so that the provider's cache has its start");
    assert_eq!(texts(&request).last().map(String::as_str), Some(prompts::COMPACT));
    assert_eq!(texts(&request)[..5], texts(&call(&conversation, &turns[..2], TurnKind::Turn))[..5]);
    drop(request);

    turns.push(compaction(" It is not in a. "));
    let after = texts(&call(&conversation, &turns, TurnKind::Turn));
    let [opening] = &after[..] else { panic!("{after:?}") };
    assert!(opening.starts_with("Find it.\n\n[You have worked on this"), "{opening}");
    assert!(opening.contains("\n\nIt is not in a.\n\n"), "{opening}");
    turns.push(looked(9_000));
    let next = texts(&call(&conversation, &turns, TurnKind::Turn));
    assert_eq!((next[..1].to_vec(), next.len()), (after, 3), "it only grows");
    assert_eq!(turns_used(&turns), 4, "a compaction is no turn");
}

fn turns_fit(request: &Request<'_>) -> bool {
    request.messages.iter().all(|message| match message {
        Message::ToolResults(outputs) => outputs.iter().all(|output| output.content.len() == 9_000),
        Message::User(_) | Message::Assistant(_) => true,
    })
}

#[test]
fn a_result_that_is_too_long_by_itself_is_cut_to_half_and_stays_so() {
    let agent = agent();
    let conversation = conversation(&agent);
    let mut turns = vec![looked(90_000)];
    let length = |request: &Request<'_>| match &request.messages[2] {
        Message::ToolResults(outputs) => outputs[0].content.len(),
        Message::User(_) | Message::Assistant(_) => panic!("no results: {request:?}"),
    };
    let first = length(&call(&conversation, &turns, TurnKind::Turn));
    assert!((9_000..11_000).contains(&first), "{first}");
    turns.push(looked(3_000));
    assert_eq!(length(&call(&conversation, &turns, TurnKind::Turn)), first);
}

#[test]
fn an_answer_that_is_not_complete_stays_as_it_is() {
    let agent = agent();
    let conversation = conversation(&agent);
    let cut = says("One, ").stopped(StopReason::MaxTokens).using(6_900, 200);
    let mut turns = vec![looked(9_000), cut];
    call(&conversation, &turns, TurnKind::Compaction);
    turns.push(compaction("Looked."));
    let after = texts(&call(&conversation, &turns, TurnKind::Turn));
    assert_eq!(after[1..], ["One, ".to_owned(), prompts::CONTINUE.to_owned()]);
    turns.push(says("two."));
    let Next::Finish(outcome) = next(&conversation, &turns, 1) else { panic!("no end") };
    assert_eq!(outcome, Outcome::Completed { result: "One, two.".into(), summary: None });
}

#[test]
fn without_a_summary_old_results_leave_instead() {
    let agent = agent();
    let conversation = conversation(&agent);
    for failed in [compaction(" "), compaction("No.").stopped(StopReason::Refusal)] {
        let turns = [looked(9_000), looked(9_000), looked(9_000), failed];
        let request = call(&conversation, &turns, TurnKind::Turn);
        assert!(!turns_fit(&request), "{request:?}");
        assert_eq!(request.messages.len(), 7);
    }
    let off = Conversation { compaction: Compaction::Off, ..conversation };
    let turns = [looked(9_000), looked(9_000), looked(9_000)];
    assert!(!turns_fit(&call(&off, &turns, TurnKind::Turn)));
}

#[test]
fn a_request_that_was_too_long_is_summed_up_once_at_half_its_length() {
    let agent = agent();
    let known = conversation(&agent);
    let too_long = Conversation { window: None, too_long: Some("Too long."), ..known };
    let mut turns = vec![looked(90_000), looked(90_000)];
    let request = call(&too_long, &turns, TurnKind::Compaction);
    let bytes: usize = texts(&request).iter().map(String::len).sum();
    assert!(bytes < 90_000, "{bytes}");
    let sent = format!("{request:?}");
    assert!(sent.contains("stood here") && sent.len() < 95_000, "{}", sent.len());
    drop(request);
    turns.push(compaction("Looked twice."));
    let failed = Outcome::Failed {
        failure: FailureKind::Model,
        error: "Too long.".into(),
        partial_result: Some("Looking.".into()),
    };
    for hopeless in [too_long, Conversation { compaction: Compaction::Off, ..too_long }] {
        assert_eq!(next(&hopeless, &turns, 1), Next::Finish(failed.clone()));
    }
    assert!(matches!(next(&too_long, &[], 1), Next::Finish(_)), "nothing to sum up");
    assert_eq!(give_up(&turns, FailureKind::Model, "Too long."), failed);
}

#[test]
fn the_conversation_of_earlier_tasks_is_summed_up_too() {
    let agent = agent();
    let earlier = [EarlierTask {
        agent: agent.clone(),
        assignment: "Begin.".into(),
        turns: vec![looked(9_000), looked(9_000), compaction("Begun."), says("Done.")],
    }];
    let conversation = Conversation { earlier: &earlier, ..conversation(&agent) };
    let texts_of = |turns: &[StoredTurn]| texts(&call(&conversation, turns, TurnKind::Turn));
    let first = texts_of(&[]);
    assert!(first[0].starts_with("Begin.\n\n[") && first[0].contains("Begun."), "{first:?}");
    assert_eq!(first[1..], ["Done.", "Find it."]);
    let after = texts_of(&[compaction("All of it.")]);
    assert!(after[0].starts_with("Find it.\n\n[") && after.len() == 1, "{after:?}");
}
