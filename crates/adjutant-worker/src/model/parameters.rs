use adjutant_agent::{ContextWindow, Request, ToolDefinition, is_reserved_field};
use serde_json::{Map, Value};

use super::{TokenLimit, tool_uses};

/// The parameters that every request to a model has.
#[derive(Debug)]
pub(super) struct Parameters {
    pub model: String,
    /// The configured limit of an answer.
    pub max_tokens: Option<u32>,
    /// The limit that is sent without a configured one.
    pub default_max_tokens: Option<u32>,
    pub token_limit: TokenLimit,
    pub temperature: Option<f64>,
    /// Further fields of the config.
    pub extra_body: Map<String, Value>,
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

/// Most answers are shorter. What a call reserves is corrected when it has ended.
const ANSWER_TOKENS: u32 = 4096;

/// The most of a context window that is left free for an answer without a configured limit.
const MOST_ROOM: i64 = 32_000;

impl Parameters {
    /// The limit of an answer that requests have.
    pub(super) fn sent_max_tokens(&self) -> Option<u32> {
        self.max_tokens.or(self.default_max_tokens)
    }

    /// The tokens of an answer that a call reserves.
    pub(super) fn reserved_tokens(&self) -> i64 {
        self.max_tokens.unwrap_or(ANSWER_TOKENS).into()
    }

    /// The window with room for an answer: the configured limit, or a quarter of the window.
    pub(super) fn window(&self, context_tokens: u32) -> ContextWindow {
        let context_tokens = i64::from(context_tokens);
        let room = self.max_tokens.map(i64::from);
        let max_output_tokens = room.unwrap_or((context_tokens / 4).min(MOST_ROOM));
        ContextWindow { context_tokens, max_output_tokens }
    }

    /// The part of the body that does not depend on the conversation. The agent's fields replace
    /// the model's.
    pub(super) fn body(&self, request: &Request<'_>, offer: &ToolOffer) -> Map<String, Value> {
        let mut body = self.extra_body.clone();
        if let Some(temperature) = self.temperature {
            body.insert("temperature".to_owned(), temperature.into());
        }
        for (name, value) in request.extra_body.into_iter().flatten() {
            if !is_reserved_field(name) {
                body.insert(name.clone(), value.clone());
            }
        }
        body.insert("model".to_owned(), self.model.as_str().into());
        let limit = match self.token_limit {
            TokenLimit::MaxTokens => "max_tokens",
            TokenLimit::MaxCompletionTokens => "max_completion_tokens",
        };
        if let Some(max_tokens) = self.sent_max_tokens() {
            body.insert(limit.to_owned(), max_tokens.into());
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
