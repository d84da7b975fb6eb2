use std::time::Duration;

use serde_json::Value;

use crate::exit::Exit;

/// Why a call has no answer, split by what whoever called does next.
#[derive(Debug)]
pub enum CallError {
    /// Nobody was there to hear it: the call was not made.
    NoConnection { url: String, why: String },
    /// The connection ended before the answer: the call may have been made.
    NoAnswer { url: String, why: String },
    /// The server's answer is no.
    Refused(Refusal),
    /// Whatever answered is not our server.
    Strange { url: String, why: String },
}

/// An answer of the form `{"error": CODE, "message": text}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub status: u16,
    pub code: String,
    pub message: String,
    /// When to ask again, by the server's own word.
    pub retry_after: Option<Duration>,
    /// The body, for those who want answers as they came.
    pub as_it_came: Option<String>,
}

impl CallError {
    pub fn refused(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            Self::NoConnection { .. } | Self::NoAnswer { .. } | Self::Strange { .. } => None,
        }
    }

    pub fn has_code(&self, code: &str) -> bool {
        self.refused().is_some_and(|refusal| refusal.code == code)
    }

    pub fn as_it_came(&self) -> Option<&str> {
        self.refused().and_then(|refusal| refusal.as_it_came.as_deref())
    }

    /// Whether the same call may be answered later. No connection counts only where there was one before: else it is the
    /// address that is wrong.
    pub fn is_passing(&self, reached_before: Reached) -> bool {
        match self {
            Self::NoConnection { .. } => reached_before == Reached::Before,
            Self::NoAnswer { .. } => true,
            Self::Refused(refusal) => refusal.is_passing(),
            Self::Strange { .. } => false,
        }
    }

    pub fn exit(&self) -> Exit {
        match self {
            Self::NoConnection { .. } | Self::NoAnswer { .. } => Exit::Unreachable,
            Self::Refused(refusal) => refusal.exit(),
            Self::Strange { .. } => Exit::Error,
        }
    }
}

/// Whether the server has answered anything yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reached {
    Before,
    Never,
}

impl Refusal {
    /// Reads the body of an answer whose status is not a success; none when it is not of our form.
    pub fn read(status: u16, retry_after: Option<Duration>, body: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(body).ok()?;
        let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        Some(Self { status, code: text("error")?, message: text("message")?, retry_after, as_it_came: None })
    }

    /// The server is there and cannot answer now.
    fn is_passing(&self) -> bool {
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

    /// What to do about it, where the server's sentence leaves that to whoever knows the command line.
    fn advice(&self) -> Option<&'static str> {
        match (self.code.as_str(), self.status) {
            ("MAX_TASKS_EXCEEDED", _) => Some("--queue does that"),
            ("TASK_NOT_READY", _) => Some("`adjutant wait` waits for it"),
            ("SESSION_NOT_FOUND", _) => Some("`adjutant sessions` lists those there are"),
            ("AGENT_NOT_FOUND", _) => Some("`adjutant agents` lists those there are"),
            (_, 401) => {
                Some("give a key with --api-key or ADJUTANT_API_KEY; `adjutant keys create` makes one")
            }
            (_, 403) => Some("the key does not allow this; `adjutant keys list` shows scopes"),
            _ => None,
        }
    }
}

impl std::fmt::Display for CallError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoConnection { url, why } => write!(
                f,
                "no server at {url} ({why}): start one with `adjutant up`, or say where it is with --url or ADJUTANT_URL"
            ),
            Self::NoAnswer { url, why } => write!(f, "the server at {url} does not answer ({why})"),
            Self::Refused(refusal) => {
                write!(f, "{} ({})", refusal.message, refusal.code)?;
                refusal.advice().map_or(Ok(()), |advice| write!(f, "; {advice}"))
            }
            Self::Strange { url, why } => write!(f, "what answers at {url} is not Adjutant: {why}"),
        }
    }
}

impl std::error::Error for CallError {}
