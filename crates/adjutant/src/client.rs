//! The HTTP client of the commands that talk to a server.

use crate::output::note;

mod error;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use reqwest::header::{AUTHORIZATION, HeaderValue, RETRY_AFTER};
use reqwest::{Method, Url};
use serde_json::{Value, json};

pub use error::{CallError, Reached, Refusal};

use crate::exit::CommandError;

/// Connecting takes longer only if a firewall drops the packets.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest `wait` that the server accepts.
pub const LONGEST_WAIT: Duration = Duration::from_secs(45);

/// Longer than the longest `wait`.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a server may be unreachable before a command gives up: longer than a restart.
const MAX_OUTAGE: Duration = Duration::from_secs(300);

/// The pause between two attempts: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How answers are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputFormat {
    /// As text for people.
    Text,
    /// As the server's JSON, unchanged.
    Json,
}

/// An answer of the server: its body, and the body as JSON.
#[derive(Debug, Clone)]
pub struct Answer {
    pub text: String,
    pub value: Value,
}

/// A client of one server, with one key.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
    key: Option<HeaderValue>,
    format: OutputFormat,
    /// Whether the server has answered any request of this client.
    reached: Arc<AtomicBool>,
}

/// One request of the API.
#[derive(Debug, Clone, Default)]
pub struct ApiRequest<'a> {
    pub method: Method,
    /// The segments of the path, not encoded.
    pub path: Vec<&'a str>,
    pub query: Vec<(&'a str, String)>,
    pub body: Option<Value>,
}

impl Client {
    pub fn new(url: &str, key: Option<&str>, format: OutputFormat) -> anyhow::Result<Self> {
        let base = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        // The value is not quoted, because it may contain a password.
        let base =
            base.ok_or_else(|| CommandError::usage("--url: must be like http://127.0.0.1:7433"))?;
        let key = key.map(bearer).transpose()?;
        // Installing the provider a second time fails, which is harmless.
        drop(rustls::crypto::ring::default_provider().install_default());
        let mut http =
            reqwest::Client::builder().connect_timeout(CONNECT_TIMEOUT).timeout(REQUEST_TIMEOUT);
        // A proxy would resolve localhost to its own machine.
        if matches!(base.host_str(), Some("127.0.0.1" | "localhost" | "[::1]")) {
            http = http.no_proxy();
        }
        let http = http.build().context("cannot create an HTTP client")?;
        Ok(Self { http, base, key, format, reached: Arc::default() })
    }

    pub fn format(&self) -> OutputFormat {
        self.format
    }

    /// The server's address without credentials.
    pub fn url(&self) -> String {
        let mut shown = self.base.clone();
        // This fails only for URLs without a host.
        let (_, _) = (shown.set_username(""), shown.set_password(None));
        shown.as_str().trim_end_matches('/').to_owned()
    }

    pub async fn get(
        &self,
        path: &[&str],
        query: Vec<(&str, String)>,
    ) -> Result<Answer, CallError> {
        self.call(&ApiRequest { method: Method::GET, path: path.to_vec(), query, body: None }).await
    }

    pub async fn post(&self, path: &[&str], body: Value) -> Result<Answer, CallError> {
        let call = ApiRequest {
            method: Method::POST,
            path: path.to_vec(),
            query: Vec::new(),
            body: Some(body),
        };
        self.call(&call).await
    }

    pub async fn patch(&self, path: &[&str], body: Value) -> Result<Answer, CallError> {
        let call = ApiRequest {
            method: Method::PATCH,
            path: path.to_vec(),
            query: Vec::new(),
            body: Some(body),
        };
        self.call(&call).await
    }

    pub async fn delete(&self, path: &[&str]) -> Result<Answer, CallError> {
        let call = ApiRequest {
            method: Method::DELETE,
            path: path.to_vec(),
            query: Vec::new(),
            body: None,
        };
        self.call(&call).await
    }

    /// Calls a tool in a session that must exist.
    pub async fn tool(
        &self,
        session: &str,
        tool: &str,
        arguments: &Value,
    ) -> Result<Answer, CallError> {
        self.post(&["v1", "sessions", session, "tools", tool], arguments.clone()).await
    }

    pub async fn subagent(&self, session: &str, arguments: &Value) -> Result<Answer, CallError> {
        self.tool(session, "subagent", arguments).await
    }

    /// Like [`Client::tool`], but creates the session if it does not exist.
    pub async fn tool_creating_session(
        &self,
        session: &str,
        tool: &str,
        arguments: &Value,
    ) -> Result<Answer, CallError> {
        match self.tool(session, tool, arguments).await {
            Err(error) if error.has_code("SESSION_NOT_FOUND") => {
                let created =
                    self.post(&["v1", "sessions"], json!({ "session_id": session })).await;
                // Another client may have created it in the meantime.
                created.map(drop).or_else(|error| {
                    if error.has_code("SESSION_ALREADY_EXISTS") { Ok(()) } else { Err(error) }
                })?;
                self.tool(session, tool, arguments).await
            }
            answer => answer,
        }
    }

    /// Repeats a call while the server is unreachable. The call must be idempotent.
    pub async fn with_retries(
        &self,
        call: impl AsyncFn() -> Result<Answer, CallError>,
    ) -> Result<Answer, CallError> {
        let (mut pause, mut down_since) = (FIRST_PAUSE, None::<Instant>);
        loop {
            let reached = if self.has_answered() { Reached::Before } else { Reached::Never };
            let error = match call().await {
                Err(error) if error.is_transient(reached) => error,
                answer => {
                    if down_since.is_some() && answer.is_ok() {
                        note!("adjutant: the server is back");
                    }
                    return answer;
                }
            };
            let since = *down_since.get_or_insert_with(|| {
                note!(
                    "adjutant: {}; retrying for {} minutes",
                    outage(&error),
                    MAX_OUTAGE.as_secs() / 60
                );
                Instant::now()
            });
            if since.elapsed() > MAX_OUTAGE {
                return Err(error);
            }
            let suggested = error.refused().and_then(|refusal| refusal.retry_after);
            tokio::time::sleep(suggested.unwrap_or(pause).min(MAX_OUTAGE)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// A request that the caller sends itself.
    pub fn request(&self, call: &ApiRequest<'_>) -> reqwest::RequestBuilder {
        let mut request = self.http.request(call.method.clone(), self.address(call));
        if let Some(key) = &self.key {
            request = request.header(AUTHORIZATION, key.clone());
        }
        match &call.body {
            Some(body) => request.json(body),
            None => request,
        }
    }

    pub async fn call(&self, call: &ApiRequest<'_>) -> Result<Answer, CallError> {
        let response =
            self.request(call).send().await.map_err(|error| self.transport_error(&error))?;
        self.reached.store(true, Ordering::Relaxed);
        let status = response.status();
        let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let retry_after = retry_after.and_then(|value| value.parse().ok()).map(Duration::from_secs);
        let text = response.text().await.map_err(|error| self.transport_error(&error))?;
        if status.is_success() {
            return self.read(text);
        }
        let Some(mut refusal) = Refusal::read(status.as_u16(), retry_after, &text) else {
            let (url, why) = (self.url(), format!("HTTP status {status}"));
            // A proxy in front of a server that is down.
            return Err(match status.as_u16() {
                502..=504 => CallError::NoAnswer { url, why },
                _ => CallError::NotAdjutant { url, why },
            });
        };
        refusal.raw_body = (self.format == OutputFormat::Json).then_some(text);
        Err(CallError::Refused(refusal))
    }

    /// The HTTP status of a path.
    pub async fn probe(&self, path: &str) -> Result<u16, CallError> {
        let call = ApiRequest { path: vec![path], ..ApiRequest::default() };
        let response = self
            .http
            .get(self.address(&call))
            .send()
            .await
            .map_err(|error| self.transport_error(&error))?;
        Ok(response.status().as_u16())
    }

    fn has_answered(&self) -> bool {
        self.reached.load(Ordering::Relaxed)
    }

    /// An empty body becomes `null`.
    fn read(&self, text: String) -> Result<Answer, CallError> {
        if text.is_empty() {
            return Ok(Answer { text, value: Value::Null });
        }
        match serde_json::from_str(&text) {
            Ok(value) => Ok(Answer { text, value }),
            Err(error) => {
                let why = format!("the answer is not JSON ({error})");
                Err(CallError::NotAdjutant { url: self.url(), why })
            }
        }
    }

    fn address(&self, call: &ApiRequest<'_>) -> Url {
        let mut url = self.base.clone();
        // An http URL always has path segments.
        if let Ok(mut parts) = url.path_segments_mut() {
            parts.pop_if_empty().extend(&call.path);
        }
        if !call.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&call.query);
        }
        url
    }

    /// Why a request got no answer.
    pub fn transport_error(&self, error: &reqwest::Error) -> CallError {
        let url = self.url();
        // The innermost error names the cause; the outer ones only say that a request failed.
        let mut inner: &dyn std::error::Error = error;
        while let Some(source) = inner.source() {
            inner = source;
        }
        let why = inner.to_string();
        if error.is_connect() {
            CallError::NoConnection { url, why }
        } else {
            CallError::NoAnswer { url, why }
        }
    }
}

fn outage(error: &CallError) -> String {
    match error {
        CallError::NoConnection { url, why } => {
            format!("lost the connection to the server at {url} ({why})")
        }
        CallError::NoAnswer { .. } | CallError::Refused(_) | CallError::NotAdjutant { .. } => {
            error.to_string()
        }
    }
}

/// Marked as sensitive, so that it does not appear when headers are printed.
fn bearer(key: &str) -> anyhow::Result<HeaderValue> {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", key.trim()))
        .map_err(|_| CommandError::usage("--api-key: a key contains only letters, digits and _"))?;
    value.set_sensitive(true);
    Ok(value)
}
