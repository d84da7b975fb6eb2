use std::borrow::Cow;
use std::sync::LazyLock;

use crate::window::{Room, Window};
use crate::{AgentSpec, Answer, Message, Request, StoredTurn, ToolOutput, TurnKind, prompts};

/// What a conversation with an agent's model begins with: all that the loop needs to know besides the stored turns.
#[derive(Debug, Clone, Copy)]
pub struct Conversation<'a> {
    pub agent: &'a AgentSpec,
    /// Its first message. The agent sees nothing else of whoever delegates.
    pub assignment: &'a str,
    /// What fits into the agent's model; none if nobody knows.
    pub window: Option<Window>,
}

/// What stands in a request for an answer that has no text: wires refuse messages without content, and some model
/// templates refuse two messages of one role in a row.
static EMPTY_ANSWER: LazyLock<Answer> = LazyLock::new(|| Answer::of_text(prompts::EMPTY_ANSWER));

impl<'a> Conversation<'a> {
    /// The conversation so far, and what this kind of call asks.
    pub(crate) fn request(&self, turns: &'a [StoredTurn], kind: TurnKind) -> Request<'a> {
        let system = self.system();
        let room = Room::make(self, &system, turns, kind);
        let mut messages = vec![Message::User(Cow::Borrowed(self.assignment))];
        for (index, stored) in turns.iter().enumerate() {
            messages.push(Message::Assistant(sayable(stored)));
            if stored.wants_tools() {
                messages.push(Message::ToolResults(results(stored, index, &room)));
            }
            messages
                .extend(self.ask_after(turns, index, kind).map(|text| Message::User(Cow::Borrowed(text))));
        }
        Request { system, messages, with_tools: kind == TurnKind::Turn }
    }

    /// What was said to the model after this turn, so that it went on; `kind` is what follows the last one.
    pub(crate) fn ask_after(&self, turns: &'a [StoredTurn], index: usize, kind: TurnKind) -> Option<&'a str> {
        match turns.get(index + 1).map_or(kind, |following| following.turn.kind) {
            TurnKind::Turn if turns[index].wants_tools() => None,
            TurnKind::Turn => Some(prompts::CONTINUE),
            TurnKind::AskAgain => Some(prompts::ASK_AGAIN),
            TurnKind::Summary => self.agent.summary_prompt(),
        }
    }

    fn system(&self) -> String {
        match self.agent.system_prompt.trim_end() {
            "" => prompts::SUFFIX.to_owned(),
            prompt => format!("{prompt}\n\n{}", prompts::SUFFIX),
        }
    }
}

fn sayable(stored: &StoredTurn) -> &Answer {
    let answer = &stored.turn.answer;
    if stored.wants_tools() || answer.text().is_some() { answer } else { &EMPTY_ANSWER }
}

/// One output for each call of the turn, in the order of the calls, whatever the order in which they came.
fn results<'a>(stored: &'a StoredTurn, index: usize, room: &Room) -> Vec<ToolOutput<'a>> {
    let calls = stored.turn.answer.tool_uses().enumerate();
    calls
        .map(|(nth, call)| match stored.result_of(call) {
            Some(result) => {
                ToolOutput { content: room.content(index, nth, &result.content), ..ToolOutput::from(result) }
            }
            None => ToolOutput { call: &call.id, content: prompts::NOT_MADE.into(), is_error: true },
        })
        .collect()
}
