use adjutant_agent::{Request, ToolDefinition};
use serde_json::{Map, Value};

use super::{TokenLimit, tool_uses};

/// What every request to a model has.
#[derive(Debug)]
pub(super) struct Parameters {
    pub model: String,
    pub max_tokens: u32,
    pub token_limit: TokenLimit,
    pub temperature: Option<f64>,
    /// Added as they are.
    pub more: Map<String, Value>,
}

/// Which tools a request names.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Offer {
    Nothing,
    /// The model may call them.
    ToCall,
    /// It may not, but the conversation has calls, and no call is understood without its tool.
    ToRead,
}

impl Parameters {
    /// A body with all that does not depend on the conversation.
    pub(super) fn body(&self, offer: &Offer) -> Map<String, Value> {
        let mut body = self.more.clone();
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
        if *offer == Offer::Nothing {
            // Without tools they are refused.
            body.remove("tool_choice");
            body.remove("parallel_tool_calls");
        }
        body
    }
}

impl Offer {
    pub(super) fn of(request: &Request<'_>, tools: &[ToolDefinition]) -> Self {
        if request.with_tools && !tools.is_empty() {
            Self::ToCall
        } else if tool_uses(request) > 0 {
            Self::ToRead
        } else {
            Self::Nothing
        }
    }
}
