use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::words::words;

/// What a model answered, in one form for every wire: this is what is stored, and what goes back to the model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    pub content: Vec<Block>,
    #[serde(default)]
    pub stop: StopReason,
}

/// One piece of an answer, in the order in which the model gave them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    Text {
        text: String,
    },
    ToolUse(ToolUse),
    /// What only the wire that made it understands (thinking and its signature): it goes back as it came, on that wire.
    Opaque {
        wire: String,
        value: Value,
    },
}

/// A tool call, as the model asks for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolUse {
    /// Unique in its answer; the clients see to that.
    pub id: String,
    pub name: String,
    #[serde(flatten)]
    pub arguments: Arguments,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Arguments {
    #[serde(rename = "input")]
    Json(Value),
    /// Not a JSON object: the text as it came.
    #[serde(rename = "malformed")]
    Malformed(String),
}

words! {
    /// Why the model stopped.
    #[derive(Default)]
    StopReason {
        /// It was done, or it waits for its tools.
        #[default]
        End = "end",
        /// Its answer was cut off at the limit of tokens.
        MaxTokens = "max_tokens",
        Refusal = "refusal",
    }
}

impl Answer {
    pub fn of_text(text: impl Into<String>) -> Self {
        Self { content: vec![Block::Text { text: text.into() }], stop: StopReason::End }
    }

    /// All its text, or none if that is nothing but white space.
    pub fn text(&self) -> Option<String> {
        let text: String = self.text_parts().collect();
        (!text.trim().is_empty()).then_some(text)
    }

    /// Its text as it came, white space included.
    pub(crate) fn text_parts(&self) -> impl Iterator<Item = &str> {
        self.content.iter().filter_map(Block::text)
    }

    pub fn tool_uses(&self) -> impl Iterator<Item = &ToolUse> {
        self.content.iter().filter_map(|block| match block {
            Block::ToolUse(call) => Some(call),
            Block::Text { .. } | Block::Opaque { .. } => None,
        })
    }
}

impl Block {
    fn text(&self) -> Option<&str> {
        match self {
            Self::Text { text } => Some(text),
            Self::ToolUse(_) | Self::Opaque { .. } => None,
        }
    }
}
