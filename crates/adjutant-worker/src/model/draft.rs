use std::collections::HashSet;

use adjutant_agent::{Answer, Arguments, Block, StopReason, ToolUse};
use serde_json::{Value, json};

use super::price::Counts;
use super::{CallError, Wire};

/// The most that is taken for one answer: far more than any model's limit of tokens.
const LARGEST: usize = 16 << 20;

/// An answer while it comes in.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub parts: Vec<Part>,
    pub stop: Option<StopReason>,
    pub counts: Option<Counts>,
    pub id: Option<String>,
    pub model: Option<String>,
    /// Whether anything of an answer was there, be it empty.
    pub begun: bool,
    /// Whether its end was there.
    pub ended: bool,
    size: usize,
}

#[derive(Debug)]
pub(super) struct Part {
    /// The number under which the server goes on with it.
    pub index: Option<u64>,
    pub content: Content,
}

#[derive(Debug)]
pub(super) enum Content {
    Text(String),
    Call(Call),
    Opaque { value: Value, input: String },
}

#[derive(Debug, Default)]
pub(super) struct Call {
    pub id: String,
    pub name: String,
    pub arguments: String,
}

impl Draft {
    /// To be asked before anything is added.
    pub(super) fn make_room(&mut self, size: usize) -> Result<(), CallError> {
        self.size += size;
        if self.size > LARGEST {
            return Err(CallError::fatal(format!("an answer of more than {} MiB", LARGEST >> 20)));
        }
        Ok(())
    }

    /// Goes on with the text at the end, or begins one.
    pub(super) fn push_text(&mut self, text: &str) -> Result<(), CallError> {
        self.make_room(text.len())?;
        if let Some(Part { content: Content::Text(last), .. }) = self.parts.last_mut() {
            last.push_str(text);
        } else if !text.is_empty() {
            self.parts.push(Part { index: None, content: Content::Text(text.to_owned()) });
        }
        Ok(())
    }

    /// The answer as it is stored. Calls without an id, or with one that another has, get one that no other call of the
    /// conversation has, of which `calls_before` came earlier.
    pub(super) fn answer(self, calls_before: usize) -> Answer {
        let given: HashSet<String> = self.calls().map(|call| call.id.clone()).collect();
        let mut free = (calls_before + 1..).map(|n| format!("call_{n}")).filter(|id| !given.contains(id));
        let mut taken = HashSet::new();
        let mut content = Vec::new();
        for part in self.parts {
            content.extend(match part.content {
                Content::Text(text) => (!text.is_empty()).then_some(Block::Text { text }),
                Content::Call(mut call) => {
                    if call.id.is_empty() || !taken.insert(call.id.clone()) {
                        call.id = free.next().unwrap_or_default();
                    }
                    Some(Block::ToolUse(call.into()))
                }
                Content::Opaque { value, input } => opaque(value, &input),
            });
        }
        Answer { content, stop: self.stop.unwrap_or_default() }
    }

    fn calls(&self) -> impl Iterator<Item = &Call> {
        self.parts.iter().filter_map(|part| match &part.content {
            Content::Call(call) => Some(call),
            Content::Text(_) | Content::Opaque { .. } => None,
        })
    }
}

impl From<Call> for ToolUse {
    fn from(Call { id, name, arguments }: Call) -> Self {
        let arguments = match serde_json::from_str(&arguments) {
            _ if arguments.trim().is_empty() => Arguments::Json(json!({})),
            Ok(Value::Object(input)) => Arguments::Json(input.into()),
            Ok(_) | Err(_) => Arguments::Malformed(arguments),
        };
        // An empty name would be refused when it goes back.
        let name = if name.is_empty() { "unnamed".to_owned() } else { name };
        Self { id, name, arguments }
    }
}

/// Thinking that was cut off before its signature would be refused when it goes back.
fn opaque(mut value: Value, input: &str) -> Option<Block> {
    if let Ok(input) = serde_json::from_str::<Value>(input) {
        value["input"] = input;
    }
    let is_unsigned = value["type"] == "thinking" && value["signature"].as_str().is_none_or(str::is_empty);
    (!is_unsigned).then(|| Block::Opaque { wire: Wire::Anthropic.as_str().to_owned(), value })
}
