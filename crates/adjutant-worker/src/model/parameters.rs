use adjutant_agent::{Request, ToolDefinition};
use serde_json::{Map, Value};

use super::{TokenLimit, tool_uses};

/// The parameters that every request to a model has.
#[derive(Debug)]
pub(super) struct Parameters {
    pub model: String,
    pub max_tokens: u32,
    pub token_limit: TokenLimit,
    pub temperature: Option<f64>,
    /// Further parameters of the config.
    pub further: Map<String, Value>,
}

/// Which tools a request defines.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ToolOffer {
    None,
    /// The model may call them.
    Callable,
    /// The model may not call them, but the conversation has calls that refer to them.
    Referenced,
}

impl Parameters {
    /// The part of the body that does not depend on the conversation.
    pub(super) fn body(&self, offer: &ToolOffer) -> Map<String, Value> {
        let mut body = self.further.clone();
        body.insert("model".to_owned(), self.model.as_str().into());
        let limit = match self.token_limit {
            TokenLimit::MaxTokens => "max_tokens",
            TokenLimit::MaxCompletionTokens => "max_completion_tokens",
        };
        body.insert(limit.to_owned(), self.max_tokens.into());
        if let Some(temperature) = self.temperature {
            body.insert("temperature".to_owned(), temperature.into());
        }
        body.entry("stream").or_insert(true.into());
        if *offer == ToolOffer::None {
            // Servers reject these without tools.
            body.remove("tool_choice");
            body.remove("parallel_tool_calls");
        }
        body
    }
}

impl ToolOffer {
    pub(super) fn of(request: &Request<'_>, tools: &[ToolDefinition]) -> Self {
        if request.with_tools && !tools.is_empty() {
            Self::Callable
        } else if tool_uses(request) > 0 {
            Self::Referenced
        } else {
            Self::None
        }
    }
}
