use std::sync::LazyLock;

use crate::context_window::{ContextWindow, FittedResults};
use crate::transcript::{Transcript, TranscriptTurn};
use crate::{
    AgentConfig, Answer, Compaction, EarlierTask, MAX_TOOL_CALLS, Message, Request, StoredTurn,
    ToolOutput, ToolUse, TurnKind, prompts,
};

/// The start of a conversation with an agent's model: everything that the loop needs besides the
/// stored turns.
#[derive(Debug, Clone, Copy)]
pub struct Conversation<'a> {
    pub agent: &'a AgentConfig,
    /// The tasks that this one continues, oldest first. Their conversations come before its own.
    pub earlier: &'a [EarlierTask],
    /// Its first message. The agent sees nothing else of the orchestrator's conversation.
    pub assignment: &'a str,
    /// The context window of the agent's model, if it is known.
    pub window: Option<ContextWindow>,
    /// Whether a tool call waits for children instead of running a tool. The agent's dialect
    /// decides.
    pub waits: fn(&AgentConfig, &ToolUse) -> bool,
    pub compaction: Compaction,
    /// The error of the model for which the last request was too long.
    pub too_long: Option<&'a str>,
}

/// Replaces an answer without text in a request: model APIs refuse messages without content, and
/// some model templates refuse two messages of one role in a row.
static EMPTY_ANSWER: LazyLock<Answer> = LazyLock::new(|| Answer::of_text(prompts::EMPTY_ANSWER));

impl<'a> Conversation<'a> {
    /// The request of the next model call of this kind: the conversation so far and its user
    /// message.
    pub(crate) fn request(&self, turns: &'a [StoredTurn], kind: TurnKind) -> Request<'a> {
        let transcript = Transcript::of(self, turns, kind);
        let opening = self.opening_bytes(&transcript);
        let fitted = FittedResults::new(self.fitting(turns, kind), opening, &transcript.turns);
        let shown = transcript.turns.len();
        let mut messages = vec![Message::User(transcript.opening)];
        for (index, turn) in transcript.turns.into_iter().enumerate() {
            messages.push(Message::Assistant(non_empty_answer(turn.stored)));
            if turn.stored.wants_tools() {
                messages.push(Message::ToolResults(results(&turn, index, &fitted)));
                // Some servers refuse a user message directly after tool results.
                let follows = kind == TurnKind::Compaction && index + 1 == shown;
                messages.extend(follows.then(|| Message::Assistant(&EMPTY_ANSWER)));
            }
            messages.extend(turn.user_message.map(Message::User));
        }
        // The tools stay in the request for a compaction: without them the provider's cache would
        // not have its start.
        let with_tools = matches!(kind, TurnKind::Turn | TurnKind::Compaction);
        Request {
            system: self.system(),
            messages,
            with_tools,
            extra_body: Some(&self.agent.extra_body),
        }
    }

    /// The length of the system prompt and the first message.
    pub(crate) fn opening_bytes(&self, transcript: &Transcript<'_>) -> usize {
        self.system().len() + transcript.opening.len()
    }

    fn system(&self) -> String {
        let suffix =
            if self.agent.private_context { prompts::SNAPSHOT_SUFFIX } else { prompts::SUFFIX };
        match self.agent.system_prompt.trim_end() {
            "" => suffix.to_owned(),
            prompt => format!("{prompt}\n\n{suffix}"),
        }
    }
}

fn non_empty_answer(stored: &StoredTurn) -> &Answer {
    let answer = &stored.turn.answer;
    if stored.wants_tools() || answer.text().is_some() { answer } else { &EMPTY_ANSWER }
}

/// One output for each tool call of the turn, in the order of the calls.
fn results<'a>(
    turn: &TranscriptTurn<'a>,
    index: usize,
    fitted: &FittedResults,
) -> Vec<ToolOutput<'a>> {
    let calls = turn.stored.turn.answer.tool_uses().enumerate();
    calls
        .map(|(nth, call)| match turn.stored.result_of(call) {
            _ if nth >= MAX_TOOL_CALLS => ToolOutput {
                call: &call.id,
                content: prompts::TOO_MANY_CALLS.into(),
                is_error: true,
            },
            Some(result) => ToolOutput {
                content: fitted.content(index, nth, &result.content),
                ..ToolOutput::from(result)
            },
            None => {
                ToolOutput { call: &call.id, content: turn.missing_result.into(), is_error: true }
            }
        })
        .collect()
}
