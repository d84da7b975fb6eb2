use std::time::Duration;

use serde_json::Value;

use crate::exit::Exit;

/// Why a call has no result, split by what the caller does next.
#[derive(Debug)]
pub enum CallError {
    /// There was no connection, so the call was not made.
    NoConnection { url: String, why: String },
    /// The connection broke before the answer, so the call may have been made.
    NoAnswer { url: String, why: String },
    /// The server refused the call.
    Refused(Refusal),
    /// The program at this address is not an Adjutant server.
    NotAdjutant { url: String, why: String },
}

/// An answer of the form `{"error": CODE, "message": text}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub status: u16,
    pub code: String,
    pub message: String,
    /// The server's `Retry-After`.
    pub retry_after: Option<Duration>,
    /// The body, if answers are to be printed unchanged.
    pub raw_body: Option<String>,
}

impl CallError {
    pub fn refused(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            Self::NoConnection { .. } | Self::NoAnswer { .. } | Self::NotAdjutant { .. } => None,
        }
    }

    pub fn has_code(&self, code: &str) -> bool {
        self.refused().is_some_and(|refusal| refusal.code == code)
    }

    pub fn raw_body(&self) -> Option<&str> {
        self.refused().and_then(|refusal| refusal.raw_body.as_deref())
    }

    /// Whether the same call may succeed later. A refused connection counts only if there was one
    /// before: otherwise the address is probably wrong.
    pub fn is_transient(&self, reached_before: Reached) -> bool {
        match self {
            Self::NoConnection { .. } => reached_before == Reached::Before,
            Self::NoAnswer { .. } => true,
            Self::Refused(refusal) => refusal.is_transient(),
            Self::NotAdjutant { .. } => false,
        }
    }

    pub fn exit(&self) -> Exit {
        match self {
            Self::NoConnection { .. } | Self::NoAnswer { .. } => Exit::Unreachable,
            Self::Refused(refusal) => refusal.exit(),
            Self::NotAdjutant { .. } => Exit::Error,
        }
    }
}

/// Whether the server has answered before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reached {
    Before,
    Never,
}

impl Refusal {
    /// Parses the body of an unsuccessful answer; `None` if it does not have this form.
    pub fn read(status: u16, retry_after: Option<Duration>, body: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(body).ok()?;
        let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            status,
            code: text("error")?,
            message: text("message")?,
            retry_after,
            raw_body: None,
        })
    }

    /// Whether the server is only temporarily unable to answer.
    fn is_transient(&self) -> bool {
        match self.status {
            502..=504 => true,
            429 => self.code != "MAX_TASKS_EXCEEDED",
            _ => false,
        }
    }

    fn exit(&self) -> Exit {
        match (self.code.as_str(), self.status) {
            ("TASK_NOT_READY", _) => Exit::NotReady,
            (_, 400 | 413 | 415) => Exit::Usage,
            (_, 404) => Exit::NotFound,
            (_, 401 | 403 | 409 | 429) => Exit::Refused,
            (_, 502..=504) => Exit::Unreachable,
            _ => Exit::Error,
        }
    }

    /// What to do about a refusal, in terms of the command line.
    fn advice(&self) -> Option<&'static str> {
        match (self.code.as_str(), self.status) {
            ("MAX_TASKS_EXCEEDED", _) => Some("use --queue"),
            ("TASK_NOT_READY", _) => Some("`adjutant wait` waits for it"),
            ("SESSION_NOT_FOUND", _) => Some("`adjutant sessions` lists the sessions"),
            ("AGENT_NOT_FOUND", _) => Some("`adjutant agents` lists the agents"),
            (_, 401) => {
                Some("set --api-key or ADJUTANT_API_KEY; `adjutant keys create` creates a key")
            }
            (_, 403) => Some("the key does not permit this; `adjutant keys list` shows its scopes"),
            _ => None,
        }
    }
}

impl std::fmt::Display for CallError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoConnection { url, why } => write!(
                f,
                "no server at {url} ({why}); start one with `adjutant up`, or set --url or ADJUTANT_URL"
            ),
            Self::NoAnswer { url, why } => write!(f, "the server at {url} does not answer ({why})"),
            Self::Refused(refusal) => {
                write!(f, "{} ({})", refusal.message, refusal.code)?;
                refusal.advice().map_or(Ok(()), |advice| write!(f, "; {advice}"))
            }
            Self::NotAdjutant { url, why } => {
                write!(f, "{url} is not an Adjutant server: {why}")
            }
        }
    }
}

impl std::error::Error for CallError {}
