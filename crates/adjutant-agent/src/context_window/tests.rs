use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::test_turns::says;
use crate::{AgentConfig, Compaction, Conversation, Message, ToolOutput, TurnKind};

/// A limit of 7000 tokens, a target of 3500.
const WINDOW: ContextWindow = ContextWindow { context_tokens: 10_000, max_output_tokens: 2_500 };

fn agent() -> AgentConfig {
    AgentConfig {
        system_prompt: "You look things up.".into(),
        max_turns: 100,
        ..AgentConfig::default()
    }
}

/// A turn with one result of so many bytes.
fn looked(bytes: usize) -> StoredTurn {
    says("Looking.").calling(&["a"]).with_result("a", "x".repeat(bytes))
}

fn outputs<'a>(
    window: Option<ContextWindow>,
    agent: &'a AgentConfig,
    turns: &'a [StoredTurn],
) -> Vec<ToolOutput<'a>> {
    let conversation = Conversation {
        agent,
        earlier: &[],
        assignment: "Find it.",
        window,
        waits: |_, _| false,
        compaction: Compaction::Off,
        too_long: None,
    };
    let messages = conversation.request(turns, TurnKind::Turn).messages.into_iter();
    let results = messages.filter_map(|message| match message {
        Message::ToolResults(outputs) => Some(outputs),
        Message::User(_) | Message::Assistant(_) => None,
    });
    results.flatten().collect()
}

fn lengths(window: Option<ContextWindow>, turns: &[StoredTurn]) -> Vec<usize> {
    outputs(window, &agent(), turns).iter().map(|output| output.content.len()).collect()
}

#[test]
fn nothing_leaves_while_there_is_room() {
    let turns = [looked(6_000), looked(6_000), looked(6_000)];
    assert_eq!(lengths(Some(WINDOW), &turns), [6_000; 3]);
    assert_eq!(
        lengths(None, &[looked(600_000), looked(6_000)]),
        [600_000, 6_000],
        "nor without a known window"
    );
}

#[test]
fn the_oldest_leave_first_until_half_is_free() {
    let turns = [4_500, 4_500, 4_500, 4_500, 4_500].map(looked);
    let lengths = lengths(Some(WINDOW), &turns);
    assert_eq!(lengths[3..], [4_500; 2]);
    let agent = agent();
    for output in &outputs(Some(WINDOW), &agent, &turns)[..3] {
        assert_eq!(
            output.content,
            "[A result of 4500 characters stood here. It was left out to save room; if you need it again, call the tool again.]"
        );
    }
}

#[test]
fn the_providers_figures_count_more_than_a_guess() {
    let full = [looked(3_000), looked(3_000).using(5_900, 200)];
    assert_eq!(lengths(Some(WINDOW), &full)[1], 3_000);
    assert!(lengths(Some(WINDOW), &full)[0] < 200, "6100 tokens, 1000 came since");
    let roomy = [looked(3_000), looked(3_000).using(5_700, 200)];
    assert_eq!(lengths(Some(WINDOW), &roomy), [3_000; 2]);
    let guessed_too_high = [looked(18_000), looked(3_000).using(4_000, 200)];
    assert_eq!(lengths(Some(WINDOW), &guessed_too_high), [18_000, 3_000]);
}

#[test]
fn what_has_left_stays_away_and_the_start_stays_the_same_for_many_turns() {
    let agent = agent();
    let turns: Vec<_> = (0..60).map(|_| looked(1_500)).collect();
    let conversation = Conversation {
        agent: &agent,
        earlier: &[],
        assignment: "Find it.",
        window: Some(WINDOW),
        waits: |_, _| false,
        compaction: Compaction::Off,
        too_long: None,
    };
    let mut changes = 0;
    for made in 1..turns.len() {
        let before = conversation.request(&turns[..made], TurnKind::Turn).messages;
        let after = conversation.request(&turns[..=made], TurnKind::Turn).messages;
        if after[..before.len()] != before {
            changes += 1;
        }
    }
    // 60 turns of about 500 tokens each, of which a change makes 3500 free.
    assert!((5..=10).contains(&changes), "{changes}");
}

#[test]
fn short_results_stay() {
    let turns = [looked(600), looked(15_000), looked(601), looked(15_000)];
    let lengths = lengths(Some(WINDOW), &turns);
    assert_eq!((lengths[0], lengths[3]), (600, 15_000));
    assert!(lengths[1] < 200 && lengths[2] < 200, "{lengths:?}");
}

#[test]
fn the_latest_are_cut_in_the_middle_when_nothing_else_helps() {
    let agent = agent();
    let long = format!("{}{}{}", "start ".repeat(10), "é🦀".repeat(20_000), " end".repeat(10));
    let both =
        says("").calling(&["a", "b"]).with_result("b", "short").with_result("a", long.clone());
    let turns = [looked(6_000), both];
    let outputs = outputs(Some(WINDOW), &agent, &turns);
    assert!(outputs[0].content.len() < 200, "the older ones have left all the same");
    assert_eq!(outputs[2].content, "short");
    let cut = &outputs[1].content;
    assert!(cut.starts_with("start start ") && cut.ends_with(" end end"));
    let kept = cut.chars().filter(|c| "é🦀".contains(*c)).count();
    assert!(
        cut.contains(&format!("\n[... {} characters left out to save room ...]\n", 40_000 - kept))
    );
    assert!((14_500..=15_750).contains(&cut.len()), "three quarters of the room: {}", cut.len());

    let later =
        [turns[0].clone(), turns[1].clone(), says("Found").stopped(crate::StopReason::MaxTokens)];
    let conversation = Conversation {
        agent: &agent,
        earlier: &[],
        assignment: "Find it.",
        window: Some(WINDOW),
        waits: |_, _| false,
        compaction: Compaction::Off,
        too_long: None,
    };
    let now = conversation.request(&turns, TurnKind::Turn).messages;
    let then = conversation.request(&later, TurnKind::Turn).messages;
    assert!(then[..now.len()] == now, "and stay as they were cut");
}

#[test]
fn the_longest_are_cut_to_one_length() {
    for (lengths, excess, common) in [
        (&[3_000, 9_000, 6_000][..], 1_000, 6_000),
        (&[3_000, 9_000, 6_000], 2_000, 4_500),
        (&[3_000, 9_000, 6_000], 3_000, 3_000),
        (&[3_000, 9_000, 6_000], 4_000, 2_000),
        (&[3_000, 9_000, 6_000], 100_000, MIN_RESULT),
        (&[], 10, MIN_RESULT),
    ] {
        assert_eq!(common_length(lengths, excess), common, "{lengths:?} less {excess} tokens");
    }
}

#[test]
fn an_answer_that_claims_all_of_the_window_is_not_believed() {
    let window = ContextWindow { context_tokens: 8_000, max_output_tokens: 8_000 };
    assert_eq!((window.limit(), window.target()), (2_000, 1_000));
    assert_eq!((WINDOW.limit(), WINDOW.target()), (7_000, 3_500));
}

proptest! {
    #[test]
    fn a_request_fits_unless_nothing_more_can_leave(results in vec(vec(0..40_000_usize, 1..4), 1..12)) {
        let ids = ["a", "b", "c"];
        let turns: Vec<_> = results
            .iter()
            .map(|bytes| {
                let calls = says("Looking.").calling(&ids[..bytes.len()]);
                bytes.iter().zip(ids).fold(calls, |turn, (bytes, id)| turn.with_result(id, "x".repeat(*bytes)))
            })
            .collect();
        let lengths = lengths(Some(WINDOW), &turns);
        let (older, latest) = lengths.split_at(lengths.len() - results[results.len() - 1].len());
        let fits = tokens(lengths.iter().sum()) <= WINDOW.limit();
        let least = |length: &usize| *length <= MIN_RESULT + 100;
        prop_assert!(fits || older.iter().all(least) && latest.iter().all(least), "{lengths:?}");
        let given: Vec<_> = results.concat();
        prop_assert!(lengths.iter().zip(&given).all(|(now, then)| *now <= (*then).max(MIN_RESULT) + 100));
    }
}
