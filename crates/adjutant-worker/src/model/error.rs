use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use serde_json::Value;

use super::rate_limit;

/// The most characters of a message of the server.
const MAX_CHARS: usize = 300;
const MAX_KIND_CHARS: usize = 64;

/// Why a call has no answer, by what the caller does next. The text becomes the error of a task
/// that fails because of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Another attempt may succeed: the server, the connection or the stream failed.
    #[error("Model API error: {details}")]
    Transient { retry_after: Option<Duration>, details: Details },
    /// The provider limits the rate: no worker should call this model for a while.
    #[error("Model API error: {details}")]
    RateLimited { retry_after: Option<Duration>, details: Details },
    /// The provider refuses the key: no call of any task succeeds before somebody mends it.
    #[error("Model API error: {details}")]
    Refused { details: Details },
    /// The provider's account has nothing left: waiting does not help, but another model may.
    #[error("Model API error: {details}")]
    OutOfCredit { details: Details },
    /// The same call would fail in the same way.
    #[error("Model API error: {details}")]
    Permanent { details: Details },
}

/// What went wrong. The server's own message may quote the request, so it is shown in the task, but
/// not logged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Details {
    status: Option<u16>,
    summary: String,
    server_message: Option<String>,
}

impl<T: Into<String>> From<T> for Details {
    fn from(summary: T) -> Self {
        Self { status: None, summary: summary.into(), server_message: None }
    }
}

impl std::fmt::Display for Details {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.server_message {
            Some(message) if self.summary.is_empty() => f.write_str(message),
            Some(message) => write!(f, "{}: {message}", self.summary),
            None => f.write_str(&self.summary),
        }
    }
}

impl CallError {
    pub(super) fn transient(details: impl Into<Details>) -> Self {
        Self::Transient { retry_after: None, details: details.into() }
    }

    /// The server's message is dropped: it may show a part of the key.
    fn refused(details: Details) -> Self {
        Self::Refused { details: Details { server_message: None, ..details } }
    }

    fn out_of_credit(details: Details) -> Self {
        let summary = format!(
            "{}: the account has no credit left, or its spending limit is reached; waiting does not help",
            details.summary
        );
        Self::OutOfCredit { details: Details { summary, server_message: None, ..details } }
    }

    pub(super) fn permanent(details: impl Into<Details>) -> Self {
        Self::Permanent { details: details.into() }
    }

    /// The pause that the provider asks for.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Transient { retry_after, .. } | Self::RateLimited { retry_after, .. } => {
                *retry_after
            }
            Self::Refused { .. } | Self::OutOfCredit { .. } | Self::Permanent { .. } => None,
        }
    }

    /// The HTTP status; none if the connection or the stream failed.
    pub fn status(&self) -> Option<u16> {
        self.details().status
    }

    /// The error type in traces.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Transient { .. } => "transient",
            Self::RateLimited { .. } => "rate_limited",
            Self::Refused { .. } => "refused",
            Self::OutOfCredit { .. } => "out_of_credit",
            Self::Permanent { .. } => "permanent",
        }
    }

    pub fn details(&self) -> &Details {
        match self {
            Self::Transient { details, .. }
            | Self::RateLimited { details, .. }
            | Self::Refused { details }
            | Self::OutOfCredit { details }
            | Self::Permanent { details } => details,
        }
    }

    /// What went wrong, without the message of the server: safe to log.
    pub fn summary(&self) -> &str {
        let Details { summary, server_message, .. } = self.details();
        if summary.is_empty() && server_message.is_some() {
            "the server sent an error message"
        } else {
            summary
        }
    }

    /// Removes `secrets`, which a server may quote, and shortens the texts to one line.
    pub(super) fn redacted(mut self, secrets: &[&str]) -> Self {
        let (Self::Transient { details, .. }
        | Self::RateLimited { details, .. }
        | Self::Refused { details }
        | Self::OutOfCredit { details }
        | Self::Permanent { details }) = &mut self;
        for text in std::iter::once(&mut details.summary).chain(&mut details.server_message) {
            // A shorter text is a word rather than a secret.
            for secret in secrets.iter().filter(|secret| secret.len() >= 6) {
                *text = text.replace(secret, "***");
            }
            *text = shorten(text);
        }
        self
    }
}

/// An error of the connection with all its causes, without the URL, which may contain a key.
impl From<reqwest::Error> for CallError {
    fn from(error: reqwest::Error) -> Self {
        let is_builder_error = error.is_builder();
        if let Some(failure) = connection_failure(&error) {
            return Self::transient(failure);
        }
        let error = error.without_url();
        let mut details = error.to_string();
        let mut cause = std::error::Error::source(&error);
        while let Some(error) = cause {
            details = format!("{details}: {error}");
            cause = error.source();
        }
        if is_builder_error { Self::permanent(details) } else { Self::transient(details) }
    }
}

/// The usual failures of a connection, in the words of the standard library.
fn connection_failure(error: &reqwest::Error) -> Option<String> {
    use std::io::ErrorKind::{
        ConnectionAborted, ConnectionRefused, ConnectionReset, HostUnreachable, NetworkUnreachable,
    };
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        let kind = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        let known = [
            ConnectionAborted,
            ConnectionRefused,
            ConnectionReset,
            HostUnreachable,
            NetworkUnreachable,
        ];
        if let Some(kind) = kind.filter(|kind| known.contains(kind)) {
            return Some(kind.to_string());
        }
        cause = error.source();
    }
    None
}

/// The error of a response with an error status.
pub(super) fn from_status(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> CallError {
    let error = serde_json::from_slice(body).map(|body| ServerError::of(&body)).unwrap_or_default();
    let details = error.details(status);
    match status.as_u16() {
        402 => CallError::out_of_credit(details),
        _ if error.is_out_of_credit() => CallError::out_of_credit(details),
        401 | 403 => CallError::refused(details),
        429 | 529 => {
            CallError::RateLimited { retry_after: rate_limit::until_open(headers), details }
        }
        408 | 409 | 500..=599 => {
            CallError::Transient { retry_after: rate_limit::retry_after(headers), details }
        }
        300..=399 => CallError::permanent(Details {
            summary: format!("{}: redirects are not followed; is base_url right?", details.summary),
            ..details
        }),
        _ => CallError::Permanent { details },
    }
}

/// The error of a response with status 200 that has an error in place of the answer, or in the
/// middle of the stream. Its type stands for the status.
pub(super) fn from_body(error: &Value) -> CallError {
    let error = ServerError::of(error);
    let status = error.code.or_else(|| status_of(error.kind.as_deref().unwrap_or_default()));
    match status.and_then(|status| StatusCode::from_u16(status).ok()) {
        Some(status) => with_status(status, &error),
        None => CallError::transient(error.details_in_stream()),
    }
}

fn with_status(status: StatusCode, error: &ServerError) -> CallError {
    let details = Details { status: Some(status.as_u16()), ..error.details_in_stream() };
    match status.as_u16() {
        402 => CallError::out_of_credit(details),
        _ if error.is_out_of_credit() => CallError::out_of_credit(details),
        401 | 403 => CallError::refused(details),
        429 | 529 => CallError::RateLimited { retry_after: None, details },
        400..=499 if !matches!(status.as_u16(), 408 | 409) => CallError::Permanent { details },
        _ => CallError::Transient { retry_after: None, details },
    }
}

fn status_of(kind: &str) -> Option<u16> {
    Some(match kind {
        "rate_limit_error" | "rate_limit_exceeded" | "tokens" | "requests" => 429,
        "overloaded_error" => 529,
        "api_error" | "server_error" => 500,
        "timeout_error" => 504,
        "invalid_request_error" | "context_length_exceeded" | "invalid_prompt" => 400,
        "authentication_error" => 401,
        "billing_error" | "insufficient_quota" | "billing_hard_limit_reached" => 402,
        "permission_error" => 403,
        "not_found_error" => 404,
        "request_too_large" => 413,
        _ => return None,
    })
}

/// The error object of a server, in any of the known forms.
#[derive(Debug, Default)]
struct ServerError {
    kind: Option<String>,
    message: Option<String>,
    code: Option<u16>,
}

/// Words of providers for an account that has nothing left, as the type or the code of an error.
const OUT_OF_CREDIT: [&str; 6] = [
    "insufficient_quota",
    "billing_hard_limit_reached",
    "billing_not_active",
    "billing_error",
    "insufficient_balance",
    "credit_balance_too_low",
];

/// Anthropic's word for it is only in the message.
const CREDIT_MESSAGE: &str = "Your credit balance is too low";

impl ServerError {
    fn of(body: &Value) -> Self {
        let error = body.get("error").filter(|error| !error.is_null()).unwrap_or(body);
        let text_of =
            |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let named = |name: &str| error.get(name).and_then(text_of);
        let words = [named("code"), named("type").filter(|kind| kind != "error")];
        let is_about_credit = |word: &&String| OUT_OF_CREDIT.contains(&word.as_str());
        let credit = words.iter().flatten().find(is_about_credit).cloned();
        let [code, kind] = words;
        Self {
            kind: credit.or(kind).or(code).filter(|kind| is_word(kind)),
            message: text_of(error).or_else(|| named("message")).or_else(|| named("detail")),
            code: error
                .get("code")
                .and_then(Value::as_u64)
                .and_then(|code| u16::try_from(code).ok()),
        }
    }

    fn is_out_of_credit(&self) -> bool {
        self.kind.as_deref().is_some_and(|kind| OUT_OF_CREDIT.contains(&kind))
            || self.message.as_deref().is_some_and(|message| message.starts_with(CREDIT_MESSAGE))
    }

    fn details(&self, status: StatusCode) -> Details {
        let kind = self.kind.as_deref().or(status.canonical_reason()).unwrap_or("unknown status");
        Details {
            status: Some(status.as_u16()),
            summary: format!("{} {kind}", status.as_u16()),
            server_message: self.message.clone(),
        }
    }

    fn details_in_stream(&self) -> Details {
        let summary = match (self.kind.as_deref(), self.code) {
            (Some(kind), _) => kind.to_owned(),
            (None, Some(code)) => format!("error {code}"),
            (None, None) => "an error without a type".to_owned(),
        };
        Details { status: self.code, summary, server_message: self.message.clone() }
    }
}

/// Whether the text is an identifier, which cannot quote the request.
fn is_word(text: &str) -> bool {
    text.len() <= MAX_KIND_CHARS
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

fn shorten(text: &str) -> String {
    let words: Vec<&str> = text.split(|c: char| c.is_whitespace() || c.is_control()).collect();
    let line = words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}
