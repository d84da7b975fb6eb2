//! Clients of the configured models. A [`Model`] makes one streaming HTTP call at a time per
//! caller, in the wire format of its server.
//!
//! ```text
//!  Request ─> wire::request_body ─> http_call ─> response ─> wire::add_event ─> Reply
//!                                   (reqwest)    (sse)       (partial_answer)
//! ```
//!
//! Guarantees:
//!
//! - A call is made once. [`Retries`] decides whether to repeat it, and the caller does.
//! - Dropping the future of a call closes its connection.
//! - An answer that was cut off is a transient error, never an answer.
//! - No error text or log message contains an API key.
//!
//! `wire.rs` says how to add a wire format.

mod config;
mod error;
mod http_call;
mod http_client;
mod parameters;
mod partial_answer;
mod price;
mod rate_limit;
mod response;
mod retry;
mod secret;
mod sse;
#[cfg(test)]
mod tests;
mod trouble;
mod wire;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use adjutant_agent::{Answer, Message, Request, ToolDefinition, Usage};
use adjutant_store::ModelLimits;
use reqwest::Url;

pub use config::{ConfigError, ModelConfig, TokenLimit};
pub use error::{CallError, Details};
pub use http_client::http_client;
pub use price::Prices;
pub(crate) use rate_limit::remaining;
pub(crate) use reqwest::header::HeaderMap;
pub use retry::{Retries, Retry};
pub use secret::Secret;
pub(crate) use trouble::Trouble;
pub use wire::Wire;

use parameters::Parameters;
use partial_answer::PartialAnswer;
use price::Rates;
use secret::KeySource;

/// As `ContextWindow` estimates: most texts have more bytes per token.
const BYTES_PER_TOKEN: usize = 3;

/// A model that can be called. Its config is checked and its key is read.
pub struct Model {
    name: String,
    wire: Wire,
    url: Url,
    key: Option<KeySource>,
    headers: HeaderMap,
    parameters: Parameters,
    rates: Rates,
    context_window: Option<u32>,
    limits: ModelLimits,
    fallback: Vec<String>,
    fallback_after: Duration,
    idle_timeout: Duration,
    timeout: Duration,
    client: reqwest::Client,
    tenants: Option<Vec<String>>,
    missing_usage_logged: AtomicBool,
    trouble: Trouble,
}

/// The result of one call.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    pub answer: Answer,
    /// Zero where the server does not report it.
    pub usage: Usage,
    /// The server's id of the answer.
    pub id: Option<String>,
    /// The model that answered, by the server's name for it.
    pub model: Option<String>,
}

impl Model {
    /// The name in the config.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The tenants whose tasks may use it; `None` is all of them.
    pub fn tenants(&self) -> Option<&[String]> {
        self.tenants.as_deref()
    }

    pub fn wire(&self) -> Wire {
        self.wire
    }

    /// The name in requests.
    pub fn model_id(&self) -> &str {
        &self.parameters.model
    }

    /// The host of the server.
    pub fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// The port of the server.
    pub fn port(&self) -> Option<u16> {
        self.url.port_or_known_default()
    }

    /// The host of the server, with its port if that is not the usual one.
    pub fn address(&self) -> String {
        match self.url.port() {
            Some(port) => format!("{}:{port}", self.host()),
            None => self.host().to_owned(),
        }
    }

    /// What is wrong with it, as texts name it: the model, its address, and what happened.
    pub(crate) fn says(&self, what: impl std::fmt::Display) -> String {
        format!("model `{}` at {}: {what}", self.name, self.address())
    }

    /// Whether its calls fail at the moment, in this process.
    pub(crate) fn trouble(&self) -> &Trouble {
        &self.trouble
    }

    pub fn context_window(&self) -> Option<u32> {
        self.context_window
    }

    /// The limit of an answer in tokens.
    pub fn max_tokens(&self) -> u32 {
        self.parameters.max_tokens
    }

    /// What all workers together may call.
    pub fn limits(&self) -> ModelLimits {
        self.limits
    }

    /// The models that are called instead if this one is closed or down.
    pub fn fallback(&self) -> &[String] {
        &self.fallback
    }

    /// A gate that is closed for longer than this sends calls to the fallback.
    pub fn fallback_after(&self) -> Duration {
        self.fallback_after
    }

    /// An overestimate of the tokens of a call and its answer.
    pub(crate) fn estimate_tokens(&self, request: &Request<'_>, tools: &[ToolDefinition]) -> i64 {
        let body = self.wire.format().request_body(&self.parameters, request, tools).to_string();
        let prompt = i64::try_from(body.len() / BYTES_PER_TOKEN).unwrap_or(i64::MAX);
        prompt.saturating_add(self.max_tokens().into())
    }

    /// Makes one call and passes the text of the answer to `on_text` as it arrives.
    pub async fn call(
        &self,
        request: &Request<'_>,
        tools: &[ToolDefinition],
        on_text: impl FnMut(&str),
    ) -> Result<Reply, CallError> {
        self.call_with_headers(request, tools, |_| {}, on_text).await
    }

    /// The same, and passes the headers of a successful response to `on_headers` at its start.
    pub(crate) async fn call_with_headers(
        &self,
        request: &Request<'_>,
        tools: &[ToolDefinition],
        on_headers: impl FnOnce(&HeaderMap),
        on_text: impl FnMut(&str),
    ) -> Result<Reply, CallError> {
        let key = self.key.as_ref().map(KeySource::read).transpose().map_err(|error| {
            CallError::transient(format!("the API key cannot be read: {error}"))
        })?;
        // Only the text is kept during the call: the JSON values take several times its memory.
        let body = self.wire.format().request_body(&self.parameters, request, tools).to_string();
        let sending = self.send(key.as_ref(), body, on_headers, on_text);
        let answer = tokio::time::timeout(self.timeout, sending)
            .await
            .unwrap_or_else(|_| {
                Err(CallError::transient(format!("no complete answer within {:?}", self.timeout)))
            })
            .map_err(|error| error.redacted(&self.secrets(key.as_ref())))?;
        Ok(self.reply(answer, tool_uses(request)))
    }

    fn reply(&self, answer: PartialAnswer, calls_before: usize) -> Reply {
        if answer.counts.is_none() && !self.missing_usage_logged.swap(true, Ordering::Relaxed) {
            tracing::debug!(
                model.name = self.name,
                "model {} does not report token usage",
                self.name
            );
        }
        let usage = self.rates.usage(answer.counts.unwrap_or_default());
        let (id, model) = (answer.id.clone(), answer.model.clone());
        Reply { answer: answer.into_answer(calls_before), usage, id, model }
    }

    /// Texts that are removed from error messages, since a server may repeat them.
    fn secrets<'a>(&'a self, key: Option<&'a Secret>) -> Vec<&'a str> {
        let headers = self.headers.values().filter_map(|value| value.to_str().ok());
        let password = self.url.password().into_iter().chain(self.url.query());
        key.map(Secret::expose).into_iter().chain(headers).chain(password).collect()
    }
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Model")
            .field("name", &self.name)
            .field("wire", &self.wire)
            .field("host", &self.host())
            .field("model", &self.parameters.model)
            .finish_non_exhaustive()
    }
}

/// The number of tool calls in the conversation.
fn tool_uses(request: &Request<'_>) -> usize {
    let uses = |message: &Message<'_>| match message {
        Message::Assistant(answer) => answer.tool_uses().count(),
        Message::User(_) | Message::ToolResults(_) => 0,
    };
    request.messages.iter().map(uses).sum()
}
