//! Clients of the models that the config names: one streaming HTTP call at a time, on either wire.
//!
//! ```text
//!  Request ──> anthropic_request ─┐                  ┌─> anthropic_answer ─┐
//!              openai_request ────┴─> exchange ─> sse┴─> openai_answer ────┴─> draft ──> Reply
//! ```
//!
//! What holds:
//!
//! - a call is made once: whether it is made again is for [`Retries`] to say, and for the caller to do;
//! - a future that is dropped closes its connection, wherever it is;
//! - an answer whose end did not come is a failure that may pass, never an answer;
//! - no key is in any text that comes out of here.

mod anthropic_answer;
mod anthropic_request;
mod client;
mod config;
mod draft;
mod error;
mod exchange;
mod openai_answer;
mod openai_request;
mod parameters;
mod price;
mod rate_limit;
mod reading;
mod retry;
mod secret;
mod sse;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use adjutant_agent::{Answer, Message, Request, ToolDefinition, Usage};
use reqwest::Url;
use reqwest::header::HeaderMap;
use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub use client::http_client;
pub use config::{ConfigError, ModelConfig, TokenLimit};
pub use error::{CallError, Details};
pub use price::Prices;
pub use retry::{Retries, Retry};
pub use secret::Secret;

use draft::Draft;
use parameters::Parameters;
use price::Rates;
use secret::KeySource;

/// The language that a model's server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wire {
    Anthropic,
    OpenAi,
}

impl Wire {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
        }
    }
}

/// A model that can be called: its config with everything looked up and checked.
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
    said_that_usage_is_missing: AtomicBool,
}

/// What one call gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    pub answer: Answer,
    /// Zero where the server does not say.
    pub usage: Usage,
    /// The server's own id of this answer.
    pub id: Option<String>,
    /// The model that answered, as the server calls it.
    pub model: Option<String>,
}

impl Model {
    /// The name by which the config knows it.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn wire(&self) -> Wire {
        self.wire
    }

    /// The name that is sent.
    pub fn name_on_the_wire(&self) -> &str {
        &self.parameters.model
    }

    /// The host that is called.
    pub fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// The port that is called.
    pub fn port(&self) -> Option<u16> {
        self.url.port_or_known_default()
    }

    pub fn context_window(&self) -> Option<u32> {
        self.context_window
    }

    /// The longest answer that it is asked for.
    pub fn max_tokens(&self) -> u32 {
        self.parameters.max_tokens
    }

    /// To be held during a call: waits while as many calls as this process may make are under way.
    pub async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        // It is never closed.
        self.permits.as_ref()?.clone().acquire_owned().await.ok()
    }

    /// Makes one call, and hands out the answer's text as it comes. Dropped, it stops at once.
    pub async fn call(
        &self,
        request: &Request<'_>,
        tools: &[ToolDefinition],
        deltas: impl FnMut(&str),
    ) -> Result<Reply, CallError> {
        let key = self
            .key
            .as_ref()
            .map(KeySource::read)
            .transpose()
            .map_err(|error| CallError::passing(format!("the API key cannot be read: {error}")))?;
        // As text from here on: as values it would take many times that, for as long as the call does.
        let body = match self.wire {
            Wire::Anthropic => anthropic_request::body(&self.parameters, request, tools).to_string(),
            Wire::OpenAi => openai_request::body(&self.parameters, request, tools).to_string(),
        };
        let exchange = self.exchange(key.as_ref(), body, deltas);
        let draft = tokio::time::timeout(self.timeout, exchange)
            .await
            .unwrap_or_else(|_| Err(CallError::passing(format!("no whole answer within {:?}", self.timeout))))
            .map_err(|error| error.fit_to_be_seen(&self.secrets(key.as_ref())))?;
        Ok(self.reply(draft, tool_uses(request)))
    }

    fn reply(&self, draft: Draft, calls_before: usize) -> Reply {
        if draft.counts.is_none() && !self.said_that_usage_is_missing.swap(true, Ordering::Relaxed) {
            tracing::debug!(model.name = self.name, "{} does not say what its calls consume", self.name);
        }
        let usage = self.rates.usage(draft.counts.unwrap_or_default());
        let (id, model) = (draft.id.clone(), draft.model.clone());
        Reply { answer: draft.answer(calls_before), usage, id, model }
    }

    /// What must not be seen, should the server repeat it.
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

/// How many tool calls the conversation has.
fn tool_uses(request: &Request<'_>) -> usize {
    let uses = |message: &Message<'_>| match message {
        Message::Assistant(answer) => answer.tool_uses().count(),
        Message::User(_) | Message::ToolResults(_) => 0,
    };
    request.messages.iter().map(uses).sum()
}
