use std::time::Duration;

use adjutant_agent::{SessionId, TaskId, ToolDefinition};
use futures::future::BoxFuture;
use serde_json::Value;

/// Something that children can call. People who embed this crate write their own.
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

    /// Gives the text that the child reads, be it a result or an error. It may be dropped at any `.await`: when its time is
    /// up, or when the task is cancelled.
    fn call<'a>(&'a self, call: ToolCall<'a>) -> BoxFuture<'a, Result<String, String>>;
}

/// One call, as the model asked for it.
#[derive(Clone, Copy)]
pub struct ToolCall<'a> {
    /// Always an object: the toolbox sees to that.
    pub arguments: &'a Value,
    /// `task:turn:call`: the same for the same call, however often it is made.
    pub key: &'a str,
    pub task: TaskId,
    pub session: SessionId,
}

/// What a call may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub time: Duration,
    /// Of the text; the rest is cut off.
    pub bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { time: Duration::from_secs(60), bytes: 64 * 1024 }
    }
}

impl Limits {
    /// At most as many bytes as it says and a notice, cut between two characters.
    pub(super) fn cut(self, text: String) -> String {
        if text.len() <= self.bytes {
            return text;
        }
        let end = text.floor_char_boundary(self.bytes);
        format!("{}\n[cut: these are the first {end} of {} bytes]", &text[..end], text.len())
    }
}
