use std::sync::OnceLock;
use std::time::Duration;

use adjutant_agent::{SessionId, TaskId, ToolDefinition};
use futures::future::BoxFuture;
use serde_json::Value;

/// A tool that agents can call. Embedding programs implement their own.
///
/// ```
/// use adjutant_agent::{Replay, ToolDefinition};
/// use adjutant_worker::tools::{Tool, ToolCall};
/// use futures::future::BoxFuture;
///
/// struct Shout(ToolDefinition);
///
/// impl Tool for Shout {
///     fn definition(&self) -> &ToolDefinition {
///         &self.0
///     }
///
///     fn call<'a>(&'a self, call: ToolCall<'a>) -> BoxFuture<'a, Result<String, String>> {
///         Box::pin(async move {
///             let text = call.arguments["text"].as_str().ok_or("`text` is missing")?;
///             Ok(text.to_uppercase())
///         })
///     }
/// }
/// ```
pub trait Tool: Send + Sync + 'static {
    fn definition(&self) -> &ToolDefinition;

    fn limits(&self) -> Limits {
        Limits::default()
    }

    /// The tenants whose tasks may use it; `None` is all of them.
    fn tenants(&self) -> Option<&[String]> {
        None
    }

    /// Returns the text for the agent, as a result or as an error. The future may be dropped at any
    /// `.await`, when the time limit is reached or the task is cancelled.
    fn call<'a>(&'a self, call: ToolCall<'a>) -> BoxFuture<'a, Result<String, String>>;
}

/// One call of a tool by a model.
#[derive(Clone, Copy)]
pub struct ToolCall<'a> {
    /// Always an object: the toolbox checks that.
    pub arguments: &'a Value,
    /// The idempotency key `task:turn:call`: the same if the call is repeated after a crash.
    pub key: &'a str,
    pub task: TaskId,
    pub session: SessionId,
    /// The tenant of the task; `None` may use only tools that are for all tenants.
    pub tenant: Option<&'a str>,
    /// Set by a call that fails.
    pub kind: &'a FailureKindCell,
}

/// The kind of a call's failure, for logs and traces: a word, since the text may be secret.
#[derive(Debug, Default)]
pub struct FailureKindCell(OnceLock<&'static str>);

impl FailureKindCell {
    /// The first kind stays: it is the nearest to the cause.
    pub fn set(&self, kind: &'static str) {
        self.0.get_or_init(|| kind);
    }

    pub fn get(&self) -> &'static str {
        self.0.get().copied().unwrap_or("tool_error")
    }
}

/// The limits of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub time: Duration,
    /// Of the returned text. Longer text is truncated.
    pub bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { time: Duration::from_secs(60), bytes: 64 * 1024 }
    }
}

impl Limits {
    /// Truncates the text at a character boundary and appends a notice.
    pub(super) fn truncate(self, text: String) -> String {
        if text.len() <= self.bytes {
            return text;
        }
        let end = text.floor_char_boundary(self.bytes);
        format!("{}\n[cut: these are the first {end} of {} bytes]", &text[..end], text.len())
    }
}
