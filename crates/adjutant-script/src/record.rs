//! What was asked and how it ended.

use std::fmt;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use serde::Serialize;
use serde_json::Value;

use crate::asked::Wire;

/// One request, as it came and as far as it got.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// 0, 1, 2 ... in the order of arrival.
    pub number: usize,
    pub arrived: Instant,
    pub arrived_at: SystemTime,
    pub method: String,
    pub path: String,
    /// Keys are masked. Empty if only outlines are kept.
    pub headers: Vec<(String, String)>,
    /// None if it is not JSON, or if only outlines are kept.
    pub body: Option<Arc<Value>>,
    /// None if it is not a request that a model could answer.
    pub asked: Option<Outline>,
    /// The name of the rule that answered.
    pub rule: Option<String>,
    /// None while it is under way.
    pub end: Option<End>,
    pub(crate) key: Key,
}

/// What a script sees of a request.
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
    /// The whole answer was handed to the connection.
    Answered,
    /// The script said that it fails, and so it did.
    Failed,
    /// The client went away before the end.
    HungUp,
    /// The script has no answer, or the vendor would take no such request; and why.
    Unexpected(String),
}

/// How many requests there were, and how those that are over ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    pub requests: usize,
    pub answered: usize,
    pub failed: usize,
    pub hung_up: usize,
    pub unexpected: usize,
}

/// How often one turn of one conversation was asked for, and how often it was answered in full.
#[derive(Debug, Clone)]
pub struct TurnCount {
    pub conversation: Arc<Conversation>,
    pub turn: u32,
    /// That of the last answer.
    pub rule: String,
    pub asked: usize,
    pub answered: usize,
}

/// How much is remembered of each request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Keep {
    #[default]
    Everything,
    /// Neither headers nor bodies: for many requests.
    Outlines,
}

/// Called when a request is over.
pub type OnEnd = Box<dyn Fn(&Recorded) + Send + Sync>;

/// A key that came with a request: compared, never shown.
#[derive(Clone, Default)]
pub(crate) struct Key(pub(crate) Option<String>);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "masked" } else { "none" })
    }
}

impl Recorded {
    /// Whether it came with this key, as its wire sends it.
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

    /// Empty if it is not a request that a model could answer.
    pub fn assignment(&self) -> &str {
        self.asked.as_ref().map_or("", |asked| &asked.conversation.assignment)
    }

    pub fn hung_up(&self) -> bool {
        self.end == Some(End::HungUp)
    }
}
