use serde_json::{Map, Value};

use crate::{Answer, ToolResult};

/// A request to a model, independent of the wire. It borrows the conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct Request<'a> {
    pub system: String,
    pub messages: Vec<Message<'a>>,
    /// Whether the model may call tools; not for the summary at the end.
    pub with_tools: bool,
    /// Fields of the agent for the body of the request.
    pub extra_body: Option<&'a Map<String, Value>>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Message<'a> {
    User(std::borrow::Cow<'a, str>),
    Assistant(&'a Answer),
    /// One for each tool call of the answer before it, in the order of the calls.
    ToolResults(Vec<ToolOutput<'a>>),
}

/// A tool result in a request.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOutput<'a> {
    pub call: &'a str,
    /// May be shorter than the stored result, to fit the context window.
    pub content: std::borrow::Cow<'a, str>,
    pub is_error: bool,
}

impl<'a> From<&'a ToolResult> for ToolOutput<'a> {
    fn from(result: &'a ToolResult) -> Self {
        Self {
            call: &result.call,
            content: result.content.as_str().into(),
            is_error: result.is_error,
        }
    }
}
