use std::borrow::Cow;
use std::sync::LazyLock;

use crate::{AgentConfig, Conversation, StoredTurn, TurnKind, prompts};

/// The part of a conversation that the next request shows: all of it, or what follows the last
/// compaction.
pub(crate) struct Transcript<'a> {
    /// The first user message: the assignment, with the summary of what is left out.
    pub(crate) opening: Cow<'a, str>,
    /// Those of earlier tasks first.
    pub(crate) turns: Vec<TranscriptTurn<'a>>,
    /// The place of the first turn of the task that was added last.
    task_start: usize,
}

/// A turn of a transcript, with the user message after it.
pub(crate) struct TranscriptTurn<'a> {
    pub(crate) stored: &'a StoredTurn,
    /// The user message that followed it, besides the results of its tools.
    pub(crate) user_message: Option<Cow<'a, str>>,
    /// The result to show for its tool calls that have none.
    pub(crate) missing_result: &'static str,
    /// It was kept by a compaction, so its usage is that of a longer request.
    pub(crate) is_kept: bool,
}

/// Represents the answers of a task that ended without any.
static NO_TURN: LazyLock<StoredTurn> = LazyLock::new(StoredTurn::default);

impl<'a> Transcript<'a> {
    /// The transcript before a call of this kind. The last turn of an earlier task is followed by
    /// the next task's assignment.
    pub(crate) fn of(
        conversation: &Conversation<'a>,
        turns: &'a [StoredTurn],
        kind: TurnKind,
    ) -> Self {
        let (earlier, assignment) = (conversation.earlier, conversation.assignment);
        let opening = earlier.first().map_or(assignment, |first| &first.assignment);
        let mut transcript =
            Self { opening: Cow::Borrowed(opening), turns: Vec::new(), task_start: 0 };
        let following = earlier.iter().skip(1).map(|task| task.assignment.as_str());
        for (task, next) in earlier.iter().zip(following.chain([assignment])) {
            let missing_result =
                if task.ran_out_of_turns() { prompts::NOT_MADE } else { prompts::UNFINISHED };
            transcript.add_task(&task.agent, &task.assignment, &task.turns, missing_result);
            transcript.end_task(next, missing_result);
        }
        transcript.add_task(conversation.agent, assignment, turns, prompts::NOT_MADE);
        transcript.add_prompt(conversation.agent, kind);
        transcript
    }

    fn add_task(
        &mut self,
        agent: &'a AgentConfig,
        assignment: &str,
        turns: &'a [StoredTurn],
        missing_result: &'static str,
    ) {
        self.task_start = self.turns.len();
        for stored in turns {
            if stored.turn.kind == TurnKind::Compaction {
                if let Some(summary) = stored.compacted() {
                    self.compact(assignment, &summary);
                }
                continue;
            }
            self.add_prompt(agent, stored.turn.kind);
            let turn =
                TranscriptTurn { stored, user_message: None, missing_result, is_kept: false };
            self.turns.push(turn);
        }
    }

    fn end_task(&mut self, next_assignment: &'a str, missing_result: &'static str) {
        if self.turns.len() == self.task_start {
            let stored = &*NO_TURN;
            let turn =
                TranscriptTurn { stored, user_message: None, missing_result, is_kept: false };
            self.turns.push(turn);
        }
        if let Some(last) = self.turns.last_mut() {
            last.user_message = Some(Cow::Borrowed(next_assignment));
        }
    }

    /// Adds the user message before a call of this kind.
    fn add_prompt(&mut self, agent: &'a AgentConfig, kind: TurnKind) {
        let is_first_of_task = self.turns.len() == self.task_start;
        let Some(last) = self.turns.last_mut() else { return };
        let message = match kind {
            TurnKind::Compaction => Some(prompts::COMPACT),
            _ if is_first_of_task => None,
            TurnKind::Turn if last.stored.wants_tools() => None,
            TurnKind::Turn => Some(prompts::CONTINUE),
            TurnKind::AskAgain => Some(prompts::ASK_AGAIN),
            TurnKind::Summary => agent.summary_prompt(),
        };
        last.user_message = match (last.user_message.take(), message) {
            (Some(before), Some(message)) => Some(Cow::Owned(format!("{before}\n\n{message}"))),
            (before, message) => before.or(message.map(Cow::Borrowed)),
        };
    }

    /// Replaces what came before by its summary, except an answer that is not complete yet.
    fn compact(&mut self, assignment: &str, summary: &str) {
        let kept = self.kept_by_compaction();
        self.turns.drain(..self.turns.len() - kept);
        for turn in &mut self.turns {
            turn.is_kept = true;
        }
        self.task_start = 0;
        self.opening = Cow::Owned(prompts::compacted(assignment, summary));
    }

    /// Whether a compaction would leave anything out.
    pub(crate) fn can_be_compacted(&self) -> bool {
        self.turns.len() > self.kept_by_compaction()
    }

    /// The last turns of the task are parts of its answer if they call no tools.
    fn kept_by_compaction(&self) -> usize {
        let own = self.turns[self.task_start..].iter().rev();
        own.take_while(|turn| !turn.stored.wants_tools()).count()
    }
}
