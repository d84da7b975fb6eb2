use crate::next::{max_turns, turns_used};
use crate::{AgentConfig, StoredTurn};

/// An ended task whose conversation another task continues.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EarlierTask {
    /// Its configuration at that time, which determines its other user messages.
    pub agent: AgentConfig,
    pub assignment: String,
    pub turns: Vec<StoredTurn>,
}

impl EarlierTask {
    /// Whether it ended at its turn limit. Then the tool calls of its last turn were not made;
    /// otherwise those without a result may have been.
    pub(crate) fn ran_out_of_turns(&self) -> bool {
        turns_used(&self.turns) >= max_turns(&self.agent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context_window::ContextWindow;
    use crate::test_turns::says;
    use crate::{Compaction, Conversation, Message, Next, TurnKind, next, prompts};

    fn earlier(max_turns: i32, turns: Vec<StoredTurn>) -> EarlierTask {
        let summary_prompt = Some("Sum up.".to_owned());
        let agent = AgentConfig { max_turns, summary_prompt, ..AgentConfig::default() };
        EarlierTask { agent, assignment: "Begin.".to_owned(), turns }
    }

    /// The messages of the next model call, as text.
    fn messages(
        earlier: &[EarlierTask],
        turns: &[StoredTurn],
        window: Option<ContextWindow>,
    ) -> Vec<String> {
        let agent = AgentConfig { max_turns: 1, ..AgentConfig::default() };
        let conversation = Conversation {
            agent: &agent,
            earlier,
            assignment: "Go on.",
            window,
            waits: |_, _| false,
            compaction: Compaction::Off,
            too_long: None,
        };
        let Next::CallModel { request, .. } = next(&conversation, turns, 1) else {
            panic!("no call")
        };
        let said = |message: &Message<'_>| match message {
            Message::User(text) => format!("user: {text}"),
            Message::Assistant(answer) => format!("model: {}", answer.text().unwrap_or_default()),
            Message::ToolResults(outputs) => outputs
                .iter()
                .map(|output| format!("{}: {}", output.call, output.content))
                .collect(),
        };
        request.messages.iter().map(said).collect()
    }

    #[test]
    fn the_conversations_before_come_first_and_the_assignment_after_them() {
        let looked = says("Looking.").calling(&["a"]).with_result("a", "found");
        let summary = says("In short.").of_kind(TurnKind::Summary);
        let first = earlier(10, vec![looked, says("At length."), summary]);
        let second =
            EarlierTask { assignment: "Then.".to_owned(), ..earlier(10, vec![says("All right.")]) };
        let expected = [
            "user: Begin.",
            "model: Looking.",
            "a: found",
            "model: At length.",
            "user: Sum up.",
            "model: In short.",
            "user: Then.",
            "model: All right.",
            "user: Go on.",
        ];
        assert_eq!(messages(&[first, second], &[], None), expected);
    }

    #[test]
    fn the_turn_limit_counts_the_tasks_own_turns() {
        let first = earlier(2, vec![says("One."), says("Two.")]);
        let agent = AgentConfig { max_turns: 1, ..AgentConfig::default() };
        let earlier = [first];
        let conversation = Conversation {
            agent: &agent,
            earlier: &earlier,
            assignment: "Go on.",
            window: None,
            waits: |_, _| false,
            compaction: Compaction::Off,
            too_long: None,
        };
        assert!(matches!(next(&conversation, &[], 1), Next::CallModel { .. }));
        let own = [says("Own.").calling(&["a"])];
        assert!(matches!(next(&conversation, &own, 1), Next::Finish(_)));
    }

    #[test]
    fn a_call_without_a_result_is_answered_with_what_is_known_of_it() {
        let open = || says("Looking.").calling(&["a", "b"]).with_result("b", "found");
        let never = messages(&[earlier(1, vec![open()])], &[], None);
        assert_eq!(never[2], format!("a: {}b: found", prompts::NOT_MADE));
        let perhaps = messages(&[earlier(10, vec![open()])], &[], None);
        assert_eq!(perhaps[2], format!("a: {}b: found", prompts::UNFINISHED));
    }

    #[test]
    fn a_task_without_turns_leaves_its_assignment_and_an_empty_answer() {
        let messages = messages(&[earlier(10, vec![])], &[], None);
        assert_eq!(messages, ["user: Begin.", "model: (no text)", "user: Go on."]);
    }

    #[test]
    fn old_results_of_earlier_tasks_leave_too_when_room_runs_short() {
        let window = ContextWindow { context_tokens: 10_000, max_output_tokens: 2_500 };
        let looked = |bytes| says("Looking.").calling(&["a"]).with_result("a", "x".repeat(bytes));
        let first = earlier(10, vec![looked(12_000), looked(12_000), says("Done.")]);
        let messages = messages(&[first], &[], Some(window));
        assert!(messages[2].contains("A result of 12000 characters stood here"), "{}", messages[2]);
        assert_eq!(messages.last().map(String::as_str), Some("user: Go on."));
    }
}
