use std::borrow::Cow;
use std::sync::LazyLock;

use crate::context_window::{ContextWindow, FittedResults};
use crate::{
    AgentConfig, Answer, EarlierTask, MAX_TOOL_CALLS, Message, Request, StoredTurn, ToolOutput,
    ToolUse, TurnKind, prompts,
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
}

/// A turn of a conversation, with the user message after it.
pub(crate) struct ConversationTurn<'a> {
    pub(crate) stored: &'a StoredTurn,
    /// The user message that followed it, besides the results of its tools.
    pub(crate) user_message: Option<&'a str>,
    /// The result to show for its tool calls that have none.
    missing_result: &'static str,
}

/// Replaces an answer without text in a request: model APIs refuse messages without content, and
/// some model templates refuse two messages of one role in a row.
static EMPTY_ANSWER: LazyLock<Answer> = LazyLock::new(|| Answer::of_text(prompts::EMPTY_ANSWER));

/// Represents the answers of a task that ended without any.
static NO_TURN: LazyLock<StoredTurn> = LazyLock::new(StoredTurn::default);

impl<'a> Conversation<'a> {
    /// The request of the next model call of this kind: the conversation so far and its user
    /// message.
    pub(crate) fn request(&self, turns: &'a [StoredTurn], kind: TurnKind) -> Request<'a> {
        let (system, conversation) = (self.system(), self.turns(turns, kind));
        let opening = self.earlier.first().map_or(self.assignment, |first| &first.assignment);
        let fitted = FittedResults::new(self.window, system.len() + opening.len(), &conversation);
        let mut messages = vec![Message::User(Cow::Borrowed(opening))];
        for (index, turn) in conversation.iter().enumerate() {
            messages.push(Message::Assistant(non_empty_answer(turn.stored)));
            if turn.stored.wants_tools() {
                messages.push(Message::ToolResults(results(turn, index, &fitted)));
            }
            messages.extend(turn.user_message.map(|text| Message::User(Cow::Borrowed(text))));
        }
        Request { system, messages, with_tools: kind == TurnKind::Turn }
    }

    /// All turns, those of earlier tasks first; the last turn of an earlier task is followed by the
    /// next task's assignment.
    fn turns(&self, turns: &'a [StoredTurn], kind: TurnKind) -> Vec<ConversationTurn<'a>> {
        let following = self.earlier.iter().skip(1).map(|task| task.assignment.as_str());
        let mut conversation = Vec::new();
        for (task, next) in self.earlier.iter().zip(following.chain([self.assignment])) {
            let missing_result =
                if task.ran_out_of_turns() { prompts::NOT_MADE } else { prompts::UNFINISHED };
            let turns = if task.turns.is_empty() {
                std::slice::from_ref(&*NO_TURN)
            } else {
                &task.turns[..]
            };
            conversation.extend(turns.iter().enumerate().map(|(index, stored)| {
                let is_last = index + 1 == turns.len();
                let user_message = if is_last {
                    Some(next)
                } else {
                    message_after(&task.agent, turns, index, TurnKind::Turn)
                };
                ConversationTurn { stored, user_message, missing_result }
            }));
        }
        conversation.extend(turns.iter().enumerate().map(|(index, stored)| {
            let user_message = message_after(self.agent, turns, index, kind);
            ConversationTurn { stored, user_message, missing_result: prompts::NOT_MADE }
        }));
        conversation
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

/// The user message after this turn; `kind` is the kind of the call that follows the last turn.
fn message_after<'a>(
    agent: &'a AgentConfig,
    turns: &[StoredTurn],
    index: usize,
    kind: TurnKind,
) -> Option<&'a str> {
    match turns.get(index + 1).map_or(kind, |following| following.turn.kind) {
        TurnKind::Turn if turns[index].wants_tools() => None,
        TurnKind::Turn => Some(prompts::CONTINUE),
        TurnKind::AskAgain => Some(prompts::ASK_AGAIN),
        TurnKind::Summary => agent.summary_prompt(),
    }
}

fn non_empty_answer(stored: &StoredTurn) -> &Answer {
    let answer = &stored.turn.answer;
    if stored.wants_tools() || answer.text().is_some() { answer } else { &EMPTY_ANSWER }
}

/// One output for each tool call of the turn, in the order of the calls.
fn results<'a>(
    turn: &ConversationTurn<'a>,
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
