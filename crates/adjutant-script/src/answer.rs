use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One answer to one request: what is said, how fast, and what goes wrong.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    pub reply: Reply,
    /// With one, the answer is an error of the vendor's form and not the reply.
    pub status: Option<u16>,
    pub error: ErrorText,
    pub headers: Headers,
    pub pace: Pace,
    pub fault: Option<Fault>,
}

/// What the model says; in text and arguments, placeholders like `{assignment}` are filled in.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reply {
    /// On the Anthropic wire only.
    pub thinking: Option<String>,
    pub text: Option<String>,
    pub refusal: Option<String>,
    pub calls: Vec<Call>,
    /// `max_tokens` in each wire's own word; any other is sent as it is. Without one, what fits the rest.
    pub stop: Option<String>,
    /// Without one, it is estimated from the sizes.
    pub usage: Option<Usage>,
}

/// A tool call that the model asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    pub name: String,
    /// Without one, the same for the same turn of the same conversation, however often it is asked.
    pub id: Option<String>,
    pub arguments: CallArguments,
}

#[derive(Debug, Clone, PartialEq)]
pub enum CallArguments {
    Json(Value),
    /// Sent as it is, whether it is JSON or not.
    Raw(String),
}

/// The figures of an answer, counted as `adjutant_agent::Usage` counts them: the cache's are parts of the input's.
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

/// The words of an error; what is not given is what the vendor would say.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ErrorText {
    pub kind: Option<String>,
    pub message: Option<String>,
    /// Instead of the vendor's form.
    pub body: Option<String>,
}

/// The headers of an answer; times count from the moment that it is given.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Headers {
    /// `retry-after` in seconds.
    pub retry_after_s: Option<f64>,
    /// `retry-after` as a date.
    pub retry_after_date_s: Option<f64>,
    /// `anthropic-ratelimit-requests-reset` or `x-ratelimit-reset-requests`, and what goes with it.
    pub reset_after_s: Option<f64>,
    pub others: BTreeMap<String, String>,
}

/// When the bytes of an answer are sent.
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

/// What goes wrong with an answer. Half-way is after half of a stream's events, or of a body's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The connection is closed instead of an answer.
    DropBeforeHeaders,
    DropHalfway,
    /// Nothing comes until the client goes away.
    HangBeforeHeaders,
    HangHalfway,
    /// The body ends as HTTP has it, but there is no more than half of the answer.
    EndHalfway,
    /// The same, in the middle of a JSON value.
    HalfJson,
    /// A JSON value of the answer is not one.
    MalformedJson,
    /// A stream has an error as its last event; without a stream, the status says it.
    ErrorHalfway,
}

/// Answers for the first, the second ... time that a turn is asked for; the last one holds from then on.
#[derive(Debug, Clone, PartialEq)]
pub struct Answers(pub(crate) Vec<Answer>);

impl Answers {
    /// The one for the nth time, from 0 on.
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

/// Text, and the model is done.
pub fn text(text: impl Into<String>) -> Answer {
    Answer { reply: Reply { text: Some(text.into()), ..Reply::default() }, ..Answer::default() }
}

/// No content at all.
pub fn empty() -> Answer {
    Answer::default()
}

/// One tool call; [`Answer::and_call`] adds more.
pub fn tool_call(name: impl Into<String>, arguments: Value) -> Answer {
    empty().and_call(name, arguments)
}

/// One tool call whose arguments are sent as they are, whether they are JSON or not.
pub fn raw_tool_call(name: impl Into<String>, arguments: impl Into<String>) -> Answer {
    empty().and(Call {
        name: name.into(),
        id: None,
        arguments: CallArguments::Raw(arguments.into()),
    })
}

/// The model refuses, in the way of each wire.
pub fn refusal(words: impl Into<String>) -> Answer {
    Answer { reply: Reply { refusal: Some(words.into()), ..Reply::default() }, ..Answer::default() }
}

/// An error status, with a body as the vendor has it.
pub fn status(status: u16) -> Answer {
    Answer { status: Some(status), ..Answer::default() }
}

/// An answer of which only what goes wrong matters.
pub fn fault(fault: Fault) -> Answer {
    text("Half of this is all that you get, or less than that.").with_fault(fault)
}

impl Answer {
    pub fn and_call(self, name: impl Into<String>, arguments: Value) -> Self {
        self.and(Call { name: name.into(), id: None, arguments: CallArguments::Json(arguments) })
    }

    pub fn and(mut self, call: Call) -> Self {
        self.reply.calls.push(call);
        self
    }

    /// Gives the last call its id.
    pub fn with_call_id(mut self, id: impl Into<String>) -> Self {
        if let Some(call) = self.reply.calls.last_mut() {
            call.id = Some(id.into());
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

    /// At most so many characters in an event of a stream, and so long between two events.
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
