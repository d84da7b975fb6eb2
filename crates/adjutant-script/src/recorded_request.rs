//! Recorded requests and their ends.

use std::fmt;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use serde::Serialize;
use serde_json::Value;

use crate::model_request::Wire;

/// A request, with the answer that it got so far.
#[derive(Debug, Clone)]
pub struct RecordedRequest {
    /// 0, 1, 2 ... in the order of arrival.
    pub number: usize,
    pub arrived: Instant,
    pub arrived_at: SystemTime,
    pub method: String,
    pub path: String,
    /// With keys masked. Empty with [`Keep::Outlines`].
    pub headers: Vec<(String, String)>,
    /// None if it is not JSON, or with [`Keep::Outlines`].
    pub body: Option<Arc<Value>>,
    /// None if it is not a valid model request.
    pub parsed: Option<Outline>,
    /// The name of the rule that answered.
    pub rule: Option<String>,
    /// None while the answer is being sent.
    pub end: Option<End>,
    /// When it ended.
    pub ended: Option<Instant>,
    pub(crate) key: Key,
}

/// The parts of a request that rules are matched against.
#[derive(Debug, Clone)]
pub struct Outline {
    pub wire: Wire,
    pub model: String,
    pub streams: bool,
    pub turn: u32,
    pub conversation: Arc<Conversation>,
}

/// The requests with one system prompt and one first user message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversation {
    pub id: u64,
    pub assignment: String,
}

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The whole answer was written to the connection.
    Answered,
    /// The script injected an error or a fault.
    Failed,
    /// The client closed the connection before the end.
    HungUp,
    /// The script has no answer, or the vendor's API would refuse the request; with the reason.
    Unexpected(String),
}

/// The number of requests, in total and by how they ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct RequestCounts {
    pub requests: usize,
    pub answered: usize,
    pub failed: usize,
    pub hung_up: usize,
    pub unexpected: usize,
}

/// How often one turn of one conversation was requested, and how often it was answered in full.
#[derive(Debug, Clone)]
pub struct TurnCount {
    pub conversation: Arc<Conversation>,
    pub turn: u32,
    /// The rule of the last answer.
    pub rule: String,
    pub requested: usize,
    pub answered: usize,
}

/// How much of each request is recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Keep {
    #[default]
    Everything,
    /// Neither headers nor bodies, to save memory.
    Outlines,
}

/// Called when a request has ended.
pub type OnEnd = Box<dyn Fn(&RecordedRequest) + Send + Sync>;

/// The API key of a request. It can be compared, but is never displayed.
#[derive(Clone, Default)]
pub(crate) struct Key(pub(crate) Option<String>);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "masked" } else { "none" })
    }
}

impl RecordedRequest {
    /// Whether it has this API key.
    pub fn has_key(&self, key: &str) -> bool {
        self.key.0.as_deref() == Some(key)
    }

    pub fn has_any_key(&self) -> bool {
        self.key.0.is_some()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// Empty if it is not a valid model request.
    pub fn assignment(&self) -> &str {
        self.parsed.as_ref().map_or("", |parsed| &parsed.conversation.assignment)
    }

    pub fn hung_up(&self) -> bool {
        self.end == Some(End::HungUp)
    }
}
