use crate::{Answer, ToolResult};

/// What a model is asked, in one form for every wire; it borrows the conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct Request<'a> {
    pub system: String,
    pub messages: Vec<Message<'a>>,
    /// Whether it may call tools: the summary may not.
    pub with_tools: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Message<'a> {
    User(std::borrow::Cow<'a, str>),
    Assistant(&'a Answer),
    /// One for each call of the answer before it, in the order of the calls.
    ToolResults(Vec<ToolOutput<'a>>),
}

/// A tool's result on its way back to the model.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOutput<'a> {
    pub call: &'a str,
    /// May be less than what is stored, when the conversation nears the model's window.
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
