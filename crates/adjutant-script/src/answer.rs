use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// An answer to one request: its content, its timing and its fault.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    pub reply: Reply,
    /// An error status; then the answer is an error in the vendor's format.
    pub status: Option<u16>,
    pub error: ErrorText,
    pub headers: Headers,
    pub pace: Pace,
    pub fault: Option<Fault>,
}

/// The content of an answer. Placeholders such as `{assignment}` in texts and arguments are filled
/// in.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reply {
    /// On the Anthropic wire only.
    pub thinking: Option<String>,
    /// Further fields of the message, which have to come back: on the OpenAI wire only.
    pub fields: Map<String, Value>,
    pub text: Option<String>,
    pub refusal: Option<String>,
    pub calls: Vec<ToolCall>,
    /// The stop reason. `max_tokens` is translated for each wire; other values are sent unchanged.
    /// The default fits the content.
    pub stop: Option<String>,
    /// The default is an estimate from the sizes.
    pub usage: Option<Usage>,
}

impl Reply {
    /// Whether it has parts that have to come back.
    pub(crate) fn has_reasoning(&self) -> bool {
        self.thinking.is_some()
            || !self.fields.is_empty()
            || self.calls.iter().any(|call| !call.fields.is_empty())
    }
}

/// A tool call of the model.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    pub name: String,
    /// The default is the same for every request of the same turn of the same conversation.
    pub id: Option<String>,
    pub arguments: CallArguments,
    /// Further fields of the call, which have to come back.
    pub fields: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum CallArguments {
    Json(Value),
    /// Sent unchanged, even if it is invalid JSON.
    Raw(String),
}

/// The token counts of an answer, as in `adjutant_agent::Usage`: cached tokens are part of the
/// input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    #[serde(default)]
    pub cache_read_tokens: u64,
    #[serde(default)]
    pub cache_write_tokens: u64,
}

/// The texts of an error. The defaults are the vendor's.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ErrorText {
    pub kind: Option<String>,
    pub message: Option<String>,
    /// Replaces the vendor's format.
    pub body: Option<String>,
}

/// The headers of an answer. Times are relative to the answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Headers {
    /// `retry-after` in seconds.
    pub retry_after_s: Option<f64>,
    /// `retry-after` as a date.
    pub retry_after_date_s: Option<f64>,
    /// `anthropic-ratelimit-requests-reset` or `x-ratelimit-reset-requests`, with the related
    /// headers.
    pub reset_after_s: Option<f64>,
    pub others: BTreeMap<String, String>,
}

/// The timing of an answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pace {
    /// Before the headers.
    pub delay: Duration,
    /// Half-way through the body.
    pub pause: Duration,
    /// Between the events of a stream.
    pub chunk_delay: Duration,
    /// The most characters of text or arguments in one event of a stream.
    pub chunk_chars: Option<usize>,
}

/// A fault of an answer. Half-way is after half of a stream's events, or of a body's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// Closes the connection without an answer.
    DropBeforeHeaders,
    DropHalfway,
    /// Sends nothing until the client closes the connection.
    HangBeforeHeaders,
    HangHalfway,
    /// The body ends in a valid way for HTTP, but has only half of the answer.
    EndHalfway,
    /// The same, in the middle of a JSON value.
    HalfJson,
    /// The answer contains invalid JSON.
    MalformedJson,
    /// A stream ends with an error event; without a stream, the answer has an error status.
    ErrorHalfway,
}

/// The answers to the first, the second ... request of a turn. The last one is repeated.
#[derive(Debug, Clone, PartialEq)]
pub struct Answers(pub(crate) Vec<Answer>);

impl Answers {
    /// The answer to the request number `times_before`, from 0.
    pub(crate) fn nth(&self, times_before: usize) -> Option<&Answer> {
        self.0.get(times_before).or_else(|| self.0.last())
    }
}

impl From<Answer> for Answers {
    fn from(answer: Answer) -> Self {
        Self(vec![answer])
    }
}

impl<const N: usize> From<[Answer; N]> for Answers {
    fn from(answers: [Answer; N]) -> Self {
        Self(answers.into())
    }
}

impl From<Vec<Answer>> for Answers {
    fn from(answers: Vec<Answer>) -> Self {
        Self(answers)
    }
}

impl From<&str> for Answers {
    fn from(said: &str) -> Self {
        text(said).into()
    }
}

/// A final answer with this text.
pub fn text(text: impl Into<String>) -> Answer {
    Answer { reply: Reply { text: Some(text.into()), ..Reply::default() }, ..Answer::default() }
}

/// An answer without content.
pub fn empty() -> Answer {
    Answer::default()
}

/// One tool call; [`Answer::and_call`] adds more.
pub fn tool_call(name: impl Into<String>, arguments: Value) -> Answer {
    empty().and_call(name, arguments)
}

/// One tool call whose arguments are sent unchanged, even if they are invalid JSON.
pub fn raw_tool_call(name: impl Into<String>, arguments: impl Into<String>) -> Answer {
    empty().and(ToolCall {
        name: name.into(),
        id: None,
        arguments: CallArguments::Raw(arguments.into()),
        fields: Map::new(),
    })
}

/// A refusal of the model.
pub fn refusal(words: impl Into<String>) -> Answer {
    Answer { reply: Reply { refusal: Some(words.into()), ..Reply::default() }, ..Answer::default() }
}

/// An error with this status, in the vendor's format.
pub fn status(status: u16) -> Answer {
    Answer { status: Some(status), ..Answer::default() }
}

/// An answer with this fault.
pub fn fault(fault: Fault) -> Answer {
    text("Half of this is all that you get, or less than that.").with_fault(fault)
}

impl Answer {
    pub fn and_call(self, name: impl Into<String>, arguments: Value) -> Self {
        self.and(ToolCall {
            name: name.into(),
            id: None,
            arguments: CallArguments::Json(arguments),
            fields: Map::new(),
        })
    }

    pub fn and(mut self, call: ToolCall) -> Self {
        self.reply.calls.push(call);
        self
    }

    /// Sets the id of the last tool call.
    pub fn with_call_id(mut self, id: impl Into<String>) -> Self {
        if let Some(call) = self.reply.calls.last_mut() {
            call.id = Some(id.into());
        }
        self
    }

    /// Adds a field to the message, such as `reasoning_content`: on the OpenAI wire only.
    pub fn with_field(mut self, name: impl Into<String>, value: Value) -> Self {
        self.reply.fields.insert(name.into(), value);
        self
    }

    /// Adds a field to the last tool call, such as the signature of a thought.
    pub fn with_call_field(mut self, name: impl Into<String>, value: Value) -> Self {
        if let Some(call) = self.reply.calls.last_mut() {
            call.fields.insert(name.into(), value);
        }
        self
    }

    pub fn with_thinking(mut self, thinking: impl Into<String>) -> Self {
        self.reply.thinking = Some(thinking.into());
        self
    }

    pub fn with_stop(mut self, stop: impl Into<String>) -> Self {
        self.reply.stop = Some(stop.into());
        self
    }

    pub fn with_usage(mut self, usage: Usage) -> Self {
        self.reply.usage = Some(usage);
        self
    }

    pub fn with_error(mut self, kind: impl Into<String>, message: impl Into<String>) -> Self {
        self.error.kind = Some(kind.into());
        self.error.message = Some(message.into());
        self
    }

    pub fn with_body(mut self, body: impl Into<String>) -> Self {
        self.error.body = Some(body.into());
        self
    }

    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.others.insert(name.into(), value.into());
        self
    }

    pub fn retry_after(mut self, seconds: f64) -> Self {
        self.headers.retry_after_s = Some(seconds);
        self
    }

    pub fn retry_after_date(mut self, seconds: f64) -> Self {
        self.headers.retry_after_date_s = Some(seconds);
        self
    }

    pub fn reset_after(mut self, seconds: f64) -> Self {
        self.headers.reset_after_s = Some(seconds);
        self
    }

    /// Before the headers.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.pace.delay = delay;
        self
    }

    /// Half-way through the body.
    pub fn pause(mut self, pause: Duration) -> Self {
        self.pace.pause = pause;
        self
    }

    /// The most characters per event of a stream, and the delay between two events.
    pub fn chunks(mut self, chars: usize, delay: Duration) -> Self {
        self.pace.chunk_chars = Some(chars);
        self.pace.chunk_delay = delay;
        self
    }

    pub fn with_fault(mut self, fault: Fault) -> Self {
        self.fault = Some(fault);
        self
    }
}
