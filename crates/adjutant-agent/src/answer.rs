use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::word_enum::word_enum;

/// The answer of a model in a form that is independent of the wire. It is stored, and sent back to
/// the model in later requests.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    pub content: Vec<Block>,
    #[serde(default)]
    pub stop: StopReason,
}

/// A part of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    Text {
        text: String,
    },
    ToolUse(ToolUse),
    /// Data that only its wire understands (thinking and its signature, fields of a message that
    /// Adjutant does not know); sent back unchanged on that wire.
    Opaque {
        wire: String,
        value: Value,
    },
}

/// A tool call in an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolUse {
    /// Unique in its answer; the model clients ensure that.
    pub id: String,
    pub name: String,
    #[serde(flatten)]
    pub arguments: Arguments,
    /// Fields that Adjutant does not know, such as the signature of a thought.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<WireFields>,
}

/// Fields that only their wire understands; sent back unchanged on that wire.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WireFields {
    pub wire: String,
    pub fields: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Arguments {
    #[serde(rename = "input")]
    Json(Value),
    /// The text of arguments that are not a JSON object.
    #[serde(rename = "malformed")]
    Malformed(String),
    /// The text of arguments that may be incomplete, because the answer reached its token limit in
    /// them. Such a call is never made.
    #[serde(rename = "cut_off")]
    CutOff(String),
}

word_enum! {
    /// Why the model stopped.
    #[derive(Default)]
    StopReason {
        /// It finished, or it called tools.
        #[default]
        End = "end",
        /// Its answer was cut off at the token limit.
        MaxTokens = "max_tokens",
        Refusal = "refusal",
    }
}

impl Answer {
    pub fn of_text(text: impl Into<String>) -> Self {
        Self { content: vec![Block::Text { text: text.into() }], stop: StopReason::End }
    }

    /// All of its text; none if that is blank.
    pub fn text(&self) -> Option<String> {
        let text: String = self.text_parts().collect();
        (!text.trim().is_empty()).then_some(text)
    }

    /// Its text without any change.
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
