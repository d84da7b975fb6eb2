//! Collects an answer from the events of a response.

use std::collections::HashSet;

use adjutant_agent::{Answer, Arguments, Block, StopReason, ToolUse, WireFields};
use serde_json::{Value, json};

use super::CallError;
use super::price::TokenCounts;

/// The largest answer that is accepted: far more than the token limit of any model.
const MAX_BYTES: usize = 16 << 20;

/// An answer while it arrives.
#[derive(Debug, Default)]
pub(super) struct PartialAnswer {
    pub parts: Vec<Part>,
    pub stop: Option<StopReason>,
    pub counts: Option<TokenCounts>,
    pub id: Option<String>,
    pub model: Option<String>,
    /// Whether the answer has started, even if it is empty so far.
    pub started: bool,
    /// Whether its end has arrived.
    pub finished: bool,
    bytes: usize,
}

#[derive(Debug)]
pub(super) struct Part {
    /// The number by which later events of the stream refer to the part.
    pub index: Option<u64>,
    pub content: Content,
}

#[derive(Debug)]
pub(super) enum Content {
    Text(String),
    ToolCall(PartialToolCall),
    /// Content of one wire, such as thinking, that is sent back unchanged.
    Opaque {
        wire: &'static str,
        value: Value,
        input: String,
    },
}

#[derive(Debug, Default)]
pub(super) struct PartialToolCall {
    pub id: String,
    pub name: String,
    pub arguments: String,
    /// Fields of the call that Adjutant does not know.
    pub extra: Option<WireFields>,
}

impl PartialAnswer {
    /// Counts bytes that are about to be added. An error if the answer becomes too long.
    pub(super) fn reserve(&mut self, bytes: usize) -> Result<(), CallError> {
        self.bytes += bytes;
        if self.bytes > MAX_BYTES {
            let limit = MAX_BYTES >> 20;
            return Err(CallError::permanent(format!("the answer is longer than {limit} MiB")));
        }
        Ok(())
    }

    /// The size of its content so far.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Appends to the last part if it is text, else starts a part.
    pub(super) fn push_text(&mut self, text: &str) -> Result<(), CallError> {
        self.reserve(text.len())?;
        if let Some(Part { content: Content::Text(last), .. }) = self.parts.last_mut() {
            last.push_str(text);
        } else if !text.is_empty() {
            self.parts.push(Part { index: None, content: Content::Text(text.to_owned()) });
        }
        Ok(())
    }

    /// The answer as it is stored. Tool calls without an id, or with the id of another call, get an
    /// id that is unique in the conversation, which has `calls_before` earlier calls.
    pub(super) fn into_answer(self, calls_before: usize) -> Answer {
        let given: HashSet<String> = self.tool_calls().map(|call| call.id.clone()).collect();
        let mut free =
            (calls_before + 1..).map(|n| format!("call_{n}")).filter(|id| !given.contains(id));
        let mut taken = HashSet::new();
        let mut content = Vec::new();
        let cut_off_at =
            (self.stop == Some(StopReason::MaxTokens)).then(|| self.parts.len().saturating_sub(1));
        for (place, part) in self.parts.into_iter().enumerate() {
            content.extend(match part.content {
                Content::Text(text) => (!text.is_empty()).then_some(Block::Text { text }),
                Content::ToolCall(mut call) => {
                    if call.id.is_empty() || !taken.insert(call.id.clone()) {
                        call.id = free.next().unwrap_or_default();
                    }
                    Some(Block::ToolUse(match cut_off_at {
                        Some(last) if place == last || call.has_no_arguments() => call.cut_off(),
                        Some(_) | None => call.into(),
                    }))
                }
                Content::Opaque { wire, value, input } => Some(opaque(wire, value, &input)),
            });
        }
        Answer { content, stop: self.stop.unwrap_or_default() }
    }

    fn tool_calls(&self) -> impl Iterator<Item = &PartialToolCall> {
        self.parts.iter().filter_map(|part| match &part.content {
            Content::ToolCall(call) => Some(call),
            Content::Text(_) | Content::Opaque { .. } => None,
        })
    }
}

impl PartialToolCall {
    fn has_no_arguments(&self) -> bool {
        self.arguments.trim().is_empty()
    }

    /// The last part of an answer that reached its token limit. Its arguments may be incomplete
    /// even if they are JSON: some servers complete what was cut off.
    fn cut_off(mut self) -> ToolUse {
        let text = std::mem::take(&mut self.arguments);
        ToolUse { arguments: Arguments::CutOff(text), ..self.into() }
    }
}

impl From<PartialToolCall> for ToolUse {
    fn from(PartialToolCall { id, name, arguments, extra }: PartialToolCall) -> Self {
        let arguments = match serde_json::from_str(&arguments) {
            _ if arguments.trim().is_empty() => Arguments::Json(json!({})),
            Ok(Value::Object(input)) => Arguments::Json(input.into()),
            Ok(_) | Err(_) => Arguments::Malformed(arguments),
        };
        // Servers reject an empty name when the call is sent back.
        let name = if name.is_empty() { "unnamed".to_owned() } else { name };
        Self { id, name, arguments, extra }
    }
}

fn opaque(wire: &str, mut value: Value, input: &str) -> Block {
    if let Ok(input) = serde_json::from_str::<Value>(input) {
        value["input"] = input;
    }
    Block::Opaque { wire: wire.to_owned(), value }
}
