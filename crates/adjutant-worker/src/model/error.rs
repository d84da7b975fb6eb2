use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use serde_json::Value;

use super::rate_limit;

/// The most characters of a message that is not ours.
const LONGEST: usize = 300;
const LONGEST_WORD: usize = 64;

/// Why a call gave no answer, by what the caller does next. The text is what a task that fails of it shows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The next try may succeed: the server, the connection or the stream failed.
    #[error("Model API error: {details}")]
    Passing { retry_after: Option<Duration>, details: Details },
    /// The provider has had enough: until it wants more, no one should call this model.
    #[error("Model API error: {details}")]
    RateLimited { retry_after: Option<Duration>, details: Details },
    /// The same call would fail in the same way.
    #[error("Model API error: {details}")]
    Final { details: Details },
}

/// What went wrong, in our words and in the server's own. Those may repeat anything that it was sent, so they are for the
/// task, and not for the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Details {
    what: String,
    said: Option<String>,
}

impl<T: Into<String>> From<T> for Details {
    fn from(what: T) -> Self {
        Self { what: what.into(), said: None }
    }
}

impl std::fmt::Display for Details {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.said {
            Some(said) if self.what.is_empty() => f.write_str(said),
            Some(said) => write!(f, "{}: {said}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

impl CallError {
    pub(super) fn passing(details: impl Into<Details>) -> Self {
        Self::Passing { retry_after: None, details: details.into() }
    }

    pub(super) fn fatal(details: impl Into<Details>) -> Self {
        Self::Final { details: details.into() }
    }

    /// How long the provider wants to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Passing { retry_after, .. } | Self::RateLimited { retry_after, .. } => *retry_after,
            Self::Final { .. } => None,
        }
    }

    /// A word for traces.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Passing { .. } => "passing",
            Self::RateLimited { .. } => "rate_limited",
            Self::Final { .. } => "final",
        }
    }

    pub fn details(&self) -> &Details {
        match self {
            Self::Passing { details, .. } | Self::RateLimited { details, .. } | Self::Final { details } => {
                details
            }
        }
    }

    /// What went wrong without what the server says of it: fit for any log.
    pub fn outline(&self) -> &str {
        let Details { what, said } = self.details();
        if what.is_empty() && said.is_some() { "the server says why" } else { what }
    }

    /// On one line, not too long, and without `secrets`: a server may repeat anything that it was sent.
    pub(super) fn fit_to_be_seen(mut self, secrets: &[&str]) -> Self {
        let (Self::Passing { details, .. } | Self::RateLimited { details, .. } | Self::Final { details }) =
            &mut self;
        for text in std::iter::once(&mut details.what).chain(&mut details.said) {
            // What is that short is a word, not a secret.
            for secret in secrets.iter().filter(|secret| secret.len() >= 6) {
                *text = text.replace(secret, "***");
            }
            *text = shorten(text);
        }
        self
    }
}

/// A failure of the connection, as far down as its cause is known. It names no URL: that may have a key.
impl From<reqwest::Error> for CallError {
    fn from(error: reqwest::Error) -> Self {
        let is_ours = error.is_builder();
        let error = error.without_url();
        let mut details = error.to_string();
        let mut cause = std::error::Error::source(&error);
        while let Some(error) = cause {
            details = format!("{details}: {error}");
            cause = error.source();
        }
        if is_ours { Self::fatal(details) } else { Self::passing(details) }
    }
}

/// What the server says by its status, and what it says of it.
pub(super) fn refused(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> CallError {
    let said = serde_json::from_slice(body).map(|body| Said::of(&body)).unwrap_or_default();
    let details = said.details(status);
    match status.as_u16() {
        429 | 529 => CallError::RateLimited { retry_after: rate_limit::until_open(headers), details },
        408 | 409 | 500..=599 => {
            CallError::Passing { retry_after: rate_limit::retry_after(headers), details }
        }
        300..=399 => CallError::fatal(Details {
            what: format!("{}: redirects are not followed; is base_url right?", details.what),
            said: details.said,
        }),
        _ => CallError::Final { details },
    }
}

/// An error that came in place of an answer, or in the middle of one: its kind says what the status would have said.
pub(super) fn reported(error: &Value) -> CallError {
    let said = Said::of(error);
    let status = said.code.or_else(|| status_of(said.kind.as_deref().unwrap_or_default()));
    match status.and_then(|status| StatusCode::from_u16(status).ok()) {
        Some(status) => refused_with(status, said),
        None => CallError::passing(said.details_in_stream()),
    }
}

fn refused_with(status: StatusCode, said: Said) -> CallError {
    let details = said.details_in_stream();
    match status.as_u16() {
        429 | 529 => CallError::RateLimited { retry_after: None, details },
        400..=499 if !matches!(status.as_u16(), 408 | 409) => CallError::Final { details },
        _ => CallError::Passing { retry_after: None, details },
    }
}

fn status_of(kind: &str) -> Option<u16> {
    Some(match kind {
        "rate_limit_error" | "rate_limit_exceeded" | "insufficient_quota" | "tokens" | "requests" => 429,
        "overloaded_error" => 529,
        "api_error" | "server_error" => 500,
        "timeout_error" => 504,
        "invalid_request_error" | "context_length_exceeded" | "invalid_prompt" => 400,
        "authentication_error" => 401,
        "billing_error" => 402,
        "permission_error" => 403,
        "not_found_error" => 404,
        "request_too_large" => 413,
        _ => return None,
    })
}

/// What a server says of an error, in whichever form.
#[derive(Debug, Default)]
struct Said {
    kind: Option<String>,
    message: Option<String>,
    code: Option<u16>,
}

impl Said {
    fn of(body: &Value) -> Self {
        let error = body.get("error").filter(|error| !error.is_null()).unwrap_or(body);
        let text_of = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let named = |name: &str| error.get(name).and_then(text_of);
        Self {
            kind: named("type")
                .filter(|kind| kind != "error")
                .or_else(|| named("code"))
                .filter(|kind| is_word(kind)),
            message: text_of(error).or_else(|| named("message")).or_else(|| named("detail")),
            code: error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok()),
        }
    }

    fn details(&self, status: StatusCode) -> Details {
        let kind = self.word().or(status.canonical_reason()).unwrap_or("without a reason");
        Details { what: format!("{} {kind}", status.as_u16()), said: self.message.clone() }
    }

    fn details_in_stream(&self) -> Details {
        let what = match (self.word(), self.code) {
            (Some(kind), _) => kind.to_owned(),
            (None, Some(code)) => format!("error {code}"),
            (None, None) => "an error without a kind".to_owned(),
        };
        Details { what, said: self.message.clone() }
    }

    /// Its kind, if that is a word as servers have it, and no text.
    fn word(&self) -> Option<&str> {
        let part_of_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        self.kind.as_deref().filter(|kind| kind.len() <= LONGEST_WORD && kind.chars().all(part_of_word))
    }
}

/// A name for something, which quotes nothing.
fn is_word(text: &str) -> bool {
    text.len() <= 64 && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

fn shorten(text: &str) -> String {
    let words: Vec<&str> = text.split(|c: char| c.is_whitespace() || c.is_control()).collect();
    let line = words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}
