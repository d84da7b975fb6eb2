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
mod wire;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use adjutant_agent::{Answer, Message, Request, ToolDefinition, Usage};
use reqwest::Url;
use reqwest::header::HeaderMap;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub use config::{ConfigError, ModelConfig, TokenLimit};
pub use error::{CallError, Details};
pub use http_client::http_client;
pub use price::Prices;
pub use retry::{Retries, Retry};
pub use secret::Secret;
pub use wire::Wire;

use parameters::Parameters;
use partial_answer::PartialAnswer;
use price::Rates;
use secret::KeySource;

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
    permits: Option<Arc<Semaphore>>,
    idle_timeout: Duration,
    timeout: Duration,
    client: reqwest::Client,
    tenants: Option<Vec<String>>,
    missing_usage_logged: AtomicBool,
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

    pub fn context_window(&self) -> Option<u32> {
        self.context_window
    }

    /// The limit of an answer in tokens.
    pub fn max_tokens(&self) -> u32 {
        self.parameters.max_tokens
    }

    /// To be held during a call. Waits while `max_concurrency` calls of this process are under way.
    pub async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        self.permits.as_ref()?.clone().acquire_owned().await.ok()
    }

    /// Makes one call and passes the text of the answer to `on_text` as it arrives.
    pub async fn call(
        &self,
        request: &Request<'_>,
        tools: &[ToolDefinition],
        on_text: impl FnMut(&str),
    ) -> Result<Reply, CallError> {
        let key = self.key.as_ref().map(KeySource::read).transpose().map_err(|error| {
            CallError::transient(format!("the API key cannot be read: {error}"))
        })?;
        // Only the text is kept during the call: the JSON values take several times its memory.
        let body = self.wire.format().request_body(&self.parameters, request, tools).to_string();
        let sending = self.send(key.as_ref(), body, on_text);
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
