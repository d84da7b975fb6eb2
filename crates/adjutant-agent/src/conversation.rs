use std::borrow::Cow;
use std::sync::LazyLock;

use crate::window::{Room, Window};
use crate::{
    AgentSpec, Answer, EarlierTask, Message, Request, StoredTurn, ToolOutput, ToolUse, TurnKind,
    prompts,
};

/// What a conversation with an agent's model begins with: all that the loop needs to know besides the stored turns.
#[derive(Debug, Clone, Copy)]
pub struct Conversation<'a> {
    pub agent: &'a AgentSpec,
    /// The tasks that this one continues, the oldest first: their conversations come before its own.
    pub earlier: &'a [EarlierTask],
    /// Its first message. The agent sees nothing else of whoever delegates.
    pub assignment: &'a str,
    /// What fits into the agent's model; none if nobody knows.
    pub window: Option<Window>,
    /// Whether a call is one that the task waits for, instead of a tool that runs: the agent's dialect decides.
    pub waits: fn(&AgentSpec, &ToolUse) -> bool,
}

/// A turn in its place in a conversation.
pub(crate) struct Said<'a> {
    pub(crate) stored: &'a StoredTurn,
    /// What was said to the model after it, besides the results of its tools, so that it went on.
    pub(crate) then: Option<&'a str>,
    /// What the model is told of its calls that have no result.
    unanswered: &'static str,
}

/// What stands in a request for an answer that has no text: wires refuse messages without content, and some model
/// templates refuse two messages of one role in a row.
static EMPTY_ANSWER: LazyLock<Answer> = LazyLock::new(|| Answer::of_text(prompts::EMPTY_ANSWER));

/// Stands for the answers of a task that ended without any.
static NO_TURN: LazyLock<StoredTurn> = LazyLock::new(StoredTurn::default);

impl<'a> Conversation<'a> {
    /// The conversation so far, and what this kind of call asks.
    pub(crate) fn request(&self, turns: &'a [StoredTurn], kind: TurnKind) -> Request<'a> {
        let (system, said) = (self.system(), self.said(turns, kind));
        let opening = self.earlier.first().map_or(self.assignment, |first| &first.assignment);
        let room = Room::make(self.window, system.len() + opening.len(), &said);
        let mut messages = vec![Message::User(Cow::Borrowed(opening))];
        for (index, said) in said.iter().enumerate() {
            messages.push(Message::Assistant(sayable(said.stored)));
            if said.stored.wants_tools() {
                messages.push(Message::ToolResults(results(said, index, &room)));
            }
            messages.extend(said.then.map(|text| Message::User(Cow::Borrowed(text))));
        }
        Request { system, messages, with_tools: kind == TurnKind::Turn }
    }

    /// All turns, those of earlier tasks first; each of these is followed by the next task's assignment.
    fn said(&self, turns: &'a [StoredTurn], kind: TurnKind) -> Vec<Said<'a>> {
        let following = self.earlier.iter().skip(1).map(|task| task.assignment.as_str());
        let mut said = Vec::new();
        for (task, next) in self.earlier.iter().zip(following.chain([self.assignment])) {
            let unanswered =
                if task.ran_out_of_turns() { prompts::NOT_MADE } else { prompts::UNFINISHED };
            let turns = if task.turns.is_empty() {
                std::slice::from_ref(&*NO_TURN)
            } else {
                &task.turns[..]
            };
            said.extend(turns.iter().enumerate().map(|(index, stored)| {
                let is_last = index + 1 == turns.len();
                let then = if is_last {
                    Some(next)
                } else {
                    ask_after(&task.agent, turns, index, TurnKind::Turn)
                };
                Said { stored, then, unanswered }
            }));
        }
        said.extend(turns.iter().enumerate().map(|(index, stored)| {
            let then = ask_after(self.agent, turns, index, kind);
            Said { stored, then, unanswered: prompts::NOT_MADE }
        }));
        said
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

/// What was said to the model after this turn, so that it went on; `kind` is what follows the last one.
fn ask_after<'a>(
    agent: &'a AgentSpec,
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

fn sayable(stored: &StoredTurn) -> &Answer {
    let answer = &stored.turn.answer;
    if stored.wants_tools() || answer.text().is_some() { answer } else { &EMPTY_ANSWER }
}

/// One output for each call of the turn, in the order of the calls, whatever the order in which they came.
fn results<'a>(said: &Said<'a>, index: usize, room: &Room) -> Vec<ToolOutput<'a>> {
    let calls = said.stored.turn.answer.tool_uses().enumerate();
    calls
        .map(|(nth, call)| match said.stored.result_of(call) {
            Some(result) => ToolOutput {
                content: room.content(index, nth, &result.content),
                ..ToolOutput::from(result)
            },
            None => ToolOutput { call: &call.id, content: said.unanswered.into(), is_error: true },
        })
        .collect()
}
