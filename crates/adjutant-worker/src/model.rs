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

mod call_meter;
mod check;
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

use adjutant_agent::{
    Answer, Compaction, ContextWindow, Message, Request, ToolDefinition, Usage, estimate_tokens,
};
use adjutant_store::ModelLimits;
use reqwest::Url;

pub use call_meter::CallMeter;
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
    has_prices: bool,
    context_window: Option<u32>,
    compaction: Compaction,
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
    /// Estimated where the server does not report it.
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

    /// The context window, if it is configured, with room for an answer.
    pub fn context_window(&self) -> Option<ContextWindow> {
        self.context_window.map(|tokens| self.parameters.window(tokens))
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

    /// Whether conversations that near the context window are summed up.
    pub fn compaction(&self) -> Compaction {
        self.compaction
    }

    /// The limit of an answer in tokens that requests have.
    pub fn max_tokens(&self) -> Option<u32> {
        self.parameters.sent_max_tokens()
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

    /// Whether its calls have a cost: prices are set, even if they are 0.
    pub fn has_prices(&self) -> bool {
        self.has_prices
    }

    /// The use of a call that broke off; `None` if it cannot have cost anything.
    pub(crate) fn used(&self, meter: &CallMeter) -> Option<Usage> {
        let usage = self.rates.usage(meter.used()?);
        Some(Usage { estimated: true, ..usage })
    }

    /// An overestimate of the tokens of a call and its answer.
    pub(crate) fn estimate_tokens(&self, request: &Request<'_>, tools: &[ToolDefinition]) -> i64 {
        let body = self.wire.format().request_body(&self.parameters, request, tools).to_string();
        let prompt = i64::try_from(body.len() / BYTES_PER_TOKEN).unwrap_or(i64::MAX);
        prompt.saturating_add(self.parameters.reserved_tokens())
    }

    /// Makes one call and passes the text of the answer to `on_text` as it arrives.
    pub async fn call(
        &self,
        request: &Request<'_>,
        tools: &[ToolDefinition],
        on_text: impl FnMut(&str),
    ) -> Result<Reply, CallError> {
        self.call_metered(request, tools, &CallMeter::default(), |_| {}, on_text).await
    }

    /// The same, and meters the use of the call as it goes on, and passes the headers of a
    /// successful response to `on_headers` at its start.
    pub(crate) async fn call_metered(
        &self,
        request: &Request<'_>,
        tools: &[ToolDefinition],
        meter: &CallMeter,
        on_headers: impl FnOnce(&HeaderMap),
        on_text: impl FnMut(&str),
    ) -> Result<Reply, CallError> {
        let key = self.key.as_ref().map(KeySource::read).transpose().map_err(|error| {
            CallError::transient(format!("the API key cannot be read: {error}"))
        })?;
        // Only the text is kept during the call: the JSON values take several times its memory.
        let body = self.wire.format().request_body(&self.parameters, request, tools).to_string();
        let prompt_tokens = estimate_tokens(&body);
        meter.sending(prompt_tokens);
        let sending = self.send(key.as_ref(), body, meter, on_headers, on_text);
        let answer = tokio::time::timeout(self.timeout, sending)
            .await
            .unwrap_or_else(|_| {
                Err(CallError::transient(format!("no complete answer within {:?}", self.timeout)))
            })
            .map_err(|error| error.redacted(&self.secrets(key.as_ref())))?;
        Ok(self.reply(answer, tool_uses(request), prompt_tokens))
    }

    fn reply(&self, answer: PartialAnswer, calls_before: usize, prompt_tokens: i64) -> Reply {
        let (counts, estimated) =
            call_meter::complete(answer.counts, prompt_tokens, answer.bytes());
        if estimated && !self.missing_usage_logged.swap(true, Ordering::Relaxed) {
            tracing::debug!(
                model.name = self.name,
                "model {} does not report all token usage: it is estimated",
                self.name
            );
        }
        let usage = Usage { estimated, ..self.rates.usage(counts) };
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
