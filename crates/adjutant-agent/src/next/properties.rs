//! Whole loops against a scripted model, with workers that die after any store and tool results
//! that come in any order.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::test_turns::says;
use crate::{Compaction, ContextWindow, Message, ToolResult};

/// How a loop went: its requests, in order, and how it ended.
#[derive(Debug, PartialEq)]
struct Course {
    requests: Vec<(TurnKind, String)>,
    outcome: Outcome,
}

/// What becomes of the worker, and of the order in which tools end. Used up, it repeats.
#[derive(Debug, Clone)]
struct Fate {
    dies: Vec<bool>,
    picks: Vec<usize>,
    step: usize,
}

impl Fate {
    fn kind() -> Self {
        Self { dies: vec![false], picks: vec![0], step: 0 }
    }

    fn dies(&mut self) -> bool {
        self.step += 1;
        // Never for ever: a worker that always dies makes no progress.
        self.dies[self.step % self.dies.len()] && !self.step.is_multiple_of(7)
    }

    fn pick(&self, among: usize) -> usize {
        self.picks[self.step % self.picks.len()] % among
    }
}

/// Drives a loop as a worker does: it performs what `next` says, stores it, and calls `next` again.
/// The script's answer depends only on how many are stored.
fn run(conversation: &Conversation<'_>, script: &[StoredTurn], mut fate: Fate) -> Course {
    let mut turns: Vec<StoredTurn> = Vec::new();
    let mut requests = Vec::new();
    let mut attempt = 1;
    loop {
        let stored = match next(conversation, &turns, attempt) {
            Next::Finish(outcome) => return Course { requests, outcome },
            Next::CallModel { kind, request } => {
                check_form(conversation, &request);
                let lost = fate.dies();
                if !lost {
                    requests.push((kind, format!("{request:?}")));
                    let scripted = script[turns.len() % script.len()].clone();
                    let number = i32::try_from(turns.len()).unwrap() + 1;
                    turns.push(StoredTurn { number, attempt, ..scripted }.of_kind(kind));
                }
                !lost
            }
            Next::RunTools(pending) | Next::WaitForChildren(pending) => {
                let picked = pending[fate.pick(pending.len())];
                assert_eq!(picked.may_have_run, turns[turns.len() - 1].attempt < attempt);
                let (call, lost) = (picked.call.id.clone(), fate.dies());
                if !lost {
                    let content = format!("{} of {}", call, turns.len()).repeat(40);
                    let result = ToolResult { call, content, ..ToolResult::default() };
                    turns.last_mut().unwrap().tool_results.push(result);
                }
                !lost
            }
        };
        if !stored || fate.dies() {
            attempt += 1;
        }
        let most = usize::try_from(conversation.agent.max_turns).unwrap() + 2;
        let counted = requests.iter().filter(|(kind, _)| *kind != TurnKind::Compaction).count();
        assert!(counted <= most, "{counted} calls, {most} allowed");
        assert!(requests.len() <= 2 * most, "at most one compaction before each call");
    }
}

/// What both wires demand of a request.
fn check_form(conversation: &Conversation<'_>, request: &Request<'_>) {
    let Message::User(opening) = &request.messages[0] else { panic!("{request:?}") };
    assert!(opening.starts_with(conversation.assignment));
    assert!(request.system.ends_with(prompts::SUFFIX));
    let mut users_turn = true;
    let mut open: Vec<&str> = Vec::new();
    for message in &request.messages {
        match message {
            Message::User(text) => {
                assert!(users_turn && open.is_empty() && !text.trim().is_empty(), "{request:?}");
            }
            Message::ToolResults(outputs) => {
                assert!(users_turn && !outputs.is_empty(), "{request:?}");
                let answered: Vec<_> = outputs.iter().map(|output| output.call).collect();
                assert_eq!(answered, open, "each call once, directly after it, in its order");
                assert!(
                    outputs.iter().all(|output| !output.content.trim().is_empty()),
                    "{request:?}"
                );
                open.clear();
            }
            Message::Assistant(answer) => {
                assert!(!users_turn && open.is_empty(), "{request:?}");
                open = answer.tool_uses().map(|call| call.id.as_str()).collect();
                assert!(!open.is_empty() || answer.text().is_some(), "{request:?}");
            }
        }
        users_turn = !users_turn;
    }
    assert!(!users_turn && open.is_empty(), "the user has the last word: {request:?}");
}

fn answers() -> impl Strategy<Value = Vec<StoredTurn>> {
    let text =
        prop_oneof![Just(""), Just(" \n"), Just("Looking."), Just("Found it."), Just("(no text)")];
    let calls =
        prop_oneof![3 => Just(&[][..]), 4 => Just(&["a"][..]), 2 => Just(&["a", "b", "c"][..])];
    let stop = prop_oneof![
        12 => Just(StopReason::End),
        4 => Just(StopReason::MaxTokens),
        1 => Just(StopReason::Refusal),
    ];
    let usage = prop_oneof![Just(0), 100..2_000_i64];
    let turn = (text, calls, stop, usage).prop_map(|(text, calls, stop, input)| {
        says(text).calling(calls).stopped(stop).using(input, input / 10)
    });
    vec(turn, 1..12)
}

fn agents() -> impl Strategy<Value = AgentConfig> {
    (1..8_i32, any::<bool>()).prop_map(|(max_turns, sums_up)| AgentConfig {
        system_prompt: "You look things up.".into(),
        max_turns,
        summary_prompt: sums_up.then(|| "Sum up.".into()),
        ..AgentConfig::default()
    })
}

fn windows() -> impl Strategy<Value = Option<ContextWindow>> {
    let window =
        |context_tokens| ContextWindow { context_tokens, max_output_tokens: context_tokens / 4 };
    prop_oneof![Just(None), (200..4_000_i64).prop_map(move |tokens| Some(window(tokens)))]
}

fn fates() -> impl Strategy<Value = Fate> {
    (vec(any::<bool>(), 1..20), vec(0..3_usize, 1..8)).prop_map(|(dies, picks)| Fate {
        dies,
        picks,
        step: 0,
    })
}

proptest! {
    #[test]
    fn going_on_elsewhere_is_the_same_as_never_having_stopped(
        script in answers(), agent in agents(), window in windows(), fate in fates(), compacts in any::<bool>(),
    ) {
        let compaction = if compacts { Compaction::On } else { Compaction::Off };
        let conversation = Conversation { agent: &agent, earlier: &[], assignment: "Find it.", window, waits: |_, _| false, compaction, too_long: None };
        let calm = run(&conversation, &script, Fate::kind());
        prop_assert_eq!(run(&conversation, &script, fate), calm);
    }

    #[test]
    fn a_loop_asks_for_turns_then_once_more_then_for_a_summary(script in answers(), agent in agents()) {
        let conversation = Conversation { agent: &agent, earlier: &[], assignment: "Find it.", window: None, waits: |_, _| false, compaction: Compaction::Off, too_long: None };
        let course = run(&conversation, &script, Fate::kind());
        let count = |kind| course.requests.iter().filter(|(requested, _)| *requested == kind).count();
        prop_assert!(count(TurnKind::Turn) <= usize::try_from(agent.max_turns).unwrap());
        prop_assert!(count(TurnKind::AskAgain) <= 1);
        let summed = course.requests.iter().position(|(kind, _)| *kind == TurnKind::Summary);
        prop_assert!(summed.is_none_or(|place| place + 1 == course.requests.len()));
        match course.outcome {
            Outcome::Completed { result, .. } => prop_assert!(!is_empty(&result)),
            Outcome::Failed { partial_result, .. } => prop_assert!(partial_result.is_none_or(|text| !is_empty(&text))),
            Outcome::Cancelled { .. } => prop_assert!(false, "a loop does not cancel itself"),
        }
    }
}
