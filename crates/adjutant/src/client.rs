//! The client of the HTTP API, for the commands that speak to a server.

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

use crate::exit::Told;

/// A server that is away is connected to or not; anything longer is a packet filter.
const CONNECT: Duration = Duration::from_secs(5);

/// The longest that the server keeps a `wait`, as the contract has it.
pub const LONGEST_WAIT: Duration = Duration::from_secs(45);

/// No call takes longer than a `wait` and its way.
const ANSWER: Duration = Duration::from_secs(60);

/// How long a server may be away before we give up: longer than a restart, shorter than a night.
const PATIENCE: Duration = Duration::from_secs(300);

/// Between two tries, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// What answers are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// To be read by people.
    Plain,
    /// To be printed as they came.
    Json,
}

/// What the server said, as it came and as it reads.
#[derive(Debug, Clone)]
pub struct Answer {
    pub text: String,
    pub value: Value,
}

/// A connection to one server, under one key.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
    key: Option<HeaderValue>,
    form: Form,
    /// Whether the server has answered anything yet.
    reached: Arc<AtomicBool>,
}

/// One request.
#[derive(Debug, Clone, Default)]
pub struct Call<'a> {
    pub method: Method,
    /// The parts of its path, each of them as it is.
    pub path: Vec<&'a str>,
    pub query: Vec<(&'a str, String)>,
    pub body: Option<Value>,
}

impl Client {
    pub fn new(url: &str, key: Option<&str>, form: Form) -> anyhow::Result<Self> {
        let base = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        // Not the text itself: it may have a password in it.
        let base = base.ok_or_else(|| Told::usage("--url: must be like http://127.0.0.1:7433"))?;
        let key = key.map(bearer).transpose()?;
        // ring, as everywhere here; a second try to install it is harmless.
        drop(rustls::crypto::ring::default_provider().install_default());
        let mut http = reqwest::Client::builder().connect_timeout(CONNECT).timeout(ANSWER);
        // A proxy would look for the server on its own machine.
        if matches!(base.host_str(), Some("127.0.0.1" | "localhost" | "[::1]")) {
            http = http.no_proxy();
        }
        let http = http.build().context("cannot make an HTTP client")?;
        Ok(Self { http, base, key, form, reached: Arc::default() })
    }

    pub fn form(&self) -> Form {
        self.form
    }

    /// Its address, to be shown.
    pub fn url(&self) -> String {
        let mut shown = self.base.clone();
        // Fails only on URLs that have no host.
        let (_, _) = (shown.set_username(""), shown.set_password(None));
        shown.as_str().trim_end_matches('/').to_owned()
    }

    pub async fn get(&self, path: &[&str], query: Vec<(&str, String)>) -> Result<Answer, CallError> {
        self.call(&Call { method: Method::GET, path: path.to_vec(), query, body: None }).await
    }

    pub async fn post(&self, path: &[&str], body: Value) -> Result<Answer, CallError> {
        let call = Call { method: Method::POST, path: path.to_vec(), query: Vec::new(), body: Some(body) };
        self.call(&call).await
    }

    pub async fn patch(&self, path: &[&str], body: Value) -> Result<Answer, CallError> {
        let call = Call { method: Method::PATCH, path: path.to_vec(), query: Vec::new(), body: Some(body) };
        self.call(&call).await
    }

    pub async fn delete(&self, path: &[&str]) -> Result<Answer, CallError> {
        let call = Call { method: Method::DELETE, path: path.to_vec(), query: Vec::new(), body: None };
        self.call(&call).await
    }

    /// Calls a tool in a session that has to be there.
    pub async fn tool(&self, session: &str, tool: &str, arguments: &Value) -> Result<Answer, CallError> {
        self.post(&["v1", "sessions", session, "tools", tool], arguments.clone()).await
    }

    pub async fn subagent(&self, session: &str, arguments: &Value) -> Result<Answer, CallError> {
        self.tool(session, "subagent", arguments).await
    }

    /// As [`Client::tool`], in a session that is made if it is not there.
    pub async fn tool_in_new(
        &self,
        session: &str,
        tool: &str,
        arguments: &Value,
    ) -> Result<Answer, CallError> {
        match self.tool(session, tool, arguments).await {
            Err(error) if error.has_code("SESSION_NOT_FOUND") => {
                let made = self.post(&["v1", "sessions"], json!({ "session_id": session })).await;
                // Somebody else may have made it meanwhile.
                made.map(drop).or_else(|error| {
                    if error.has_code("SESSION_ALREADY_EXISTS") { Ok(()) } else { Err(error) }
                })?;
                self.tool(session, tool, arguments).await
            }
            answer => answer,
        }
    }

    /// Makes a call that may be made twice, again and again while the server is away.
    pub async fn patiently(
        &self,
        call: impl AsyncFn() -> Result<Answer, CallError>,
    ) -> Result<Answer, CallError> {
        let (mut pause, mut away_since) = (FIRST_PAUSE, None::<Instant>);
        loop {
            let reached = if self.has_answered() { Reached::Before } else { Reached::Never };
            let error = match call().await {
                Err(error) if error.is_passing(reached) => error,
                answer => {
                    if away_since.is_some() && answer.is_ok() {
                        eprintln!("adjutant: the server is there again");
                    }
                    return answer;
                }
            };
            let since = *away_since.get_or_insert_with(|| {
                eprintln!("adjutant: {}; trying again for {} minutes", away(&error), PATIENCE.as_secs() / 60);
                Instant::now()
            });
            if since.elapsed() > PATIENCE {
                return Err(error);
            }
            let asked_for = error.refused().and_then(|refusal| refusal.retry_after);
            tokio::time::sleep(asked_for.unwrap_or(pause).min(PATIENCE)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// A request that its caller sends and reads itself.
    pub fn request(&self, call: &Call<'_>) -> reqwest::RequestBuilder {
        let mut request = self.http.request(call.method.clone(), self.address(call));
        if let Some(key) = &self.key {
            request = request.header(AUTHORIZATION, key.clone());
        }
        match &call.body {
            Some(body) => request.json(body),
            None => request,
        }
    }

    pub async fn call(&self, call: &Call<'_>) -> Result<Answer, CallError> {
        let response = self.request(call).send().await.map_err(|error| self.no_answer(&error))?;
        self.reached.store(true, Ordering::Relaxed);
        let status = response.status();
        let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let retry_after = retry_after.and_then(|value| value.parse().ok()).map(Duration::from_secs);
        let text = response.text().await.map_err(|error| self.no_answer(&error))?;
        if status.is_success() {
            return self.read(text);
        }
        let Some(mut refusal) = Refusal::read(status.as_u16(), retry_after, &text) else {
            let (url, why) = (self.url(), format!("it answers {status}"));
            // A proxy before a server that is away.
            return Err(match status.as_u16() {
                502..=504 => CallError::NoAnswer { url, why },
                _ => CallError::Strange { url, why },
            });
        };
        refusal.as_it_came = (self.form == Form::Json).then_some(text);
        Err(CallError::Refused(refusal))
    }

    /// The status of a page, whatever its body says.
    pub async fn probe(&self, path: &str) -> Result<u16, CallError> {
        let call = Call { path: vec![path], ..Call::default() };
        let response =
            self.http.get(self.address(&call)).send().await.map_err(|error| self.no_answer(&error))?;
        Ok(response.status().as_u16())
    }

    fn has_answered(&self) -> bool {
        self.reached.load(Ordering::Relaxed)
    }

    /// An answer without a body is `null`.
    fn read(&self, text: String) -> Result<Answer, CallError> {
        if text.is_empty() {
            return Ok(Answer { text, value: Value::Null });
        }
        match serde_json::from_str(&text) {
            Ok(value) => Ok(Answer { text, value }),
            Err(error) => {
                let why = format!("its answer is not JSON ({error})");
                Err(CallError::Strange { url: self.url(), why })
            }
        }
    }

    fn address(&self, call: &Call<'_>) -> Url {
        let mut url = self.base.clone();
        // An http URL can always be a base.
        if let Ok(mut parts) = url.path_segments_mut() {
            parts.pop_if_empty().extend(&call.path);
        }
        if !call.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&call.query);
        }
        url
    }

    /// Why a request has no answer.
    pub fn no_answer(&self, error: &reqwest::Error) -> CallError {
        let url = self.url();
        // The innermost says what happened; the others say that it happened to a request.
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

fn away(error: &CallError) -> String {
    match error {
        CallError::NoConnection { url, why } => format!("the server at {url} is gone ({why})"),
        CallError::NoAnswer { .. } | CallError::Refused(_) | CallError::Strange { .. } => error.to_string(),
    }
}

/// Marked as secret, so that nothing that prints headers prints it.
fn bearer(key: &str) -> anyhow::Result<HeaderValue> {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", key.trim()))
        .map_err(|_| Told::usage("--api-key: a key has only letters, digits and _"))?;
    value.set_sensitive(true);
    Ok(value)
}
