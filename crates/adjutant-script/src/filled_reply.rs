//! A reply for one request: with placeholders filled in, ids assigned and tokens counted.

use serde_json::{Map, Value};

use crate::answer::{CallArguments, Reply, ToolCall, Usage};
use crate::model_request::{ModelRequest, Wire};

/// The default number of characters of text per event.
const CHUNK_CHARS: usize = 48;

pub(crate) struct FilledReply {
    pub(crate) id: String,
    pub(crate) model: String,
    pub(crate) thinking: Option<String>,
    pub(crate) fields: Map<String, Value>,
    /// None if it is empty.
    pub(crate) text: Option<String>,
    pub(crate) refusal: Option<String>,
    pub(crate) calls: Vec<FilledToolCall>,
    pub(crate) stop: Option<String>,
    pub(crate) usage: Usage,
    pub(crate) wants_usage: bool,
    chunk_chars: usize,
}

pub(crate) struct FilledToolCall {
    pub(crate) id: String,
    pub(crate) name: String,
    /// A text that may be invalid JSON.
    pub(crate) arguments: String,
    pub(crate) fields: Map<String, Value>,
}

impl FilledReply {
    pub(crate) fn new(reply: &Reply, request: &ModelRequest, chunk_chars: Option<usize>) -> Self {
        // The same ids for the same turn: a conversation with a crash ends up equal to one without.
        let tail = format!("{:016x}{:04}", request.conversation, request.turn);
        let (message, call) = match request.wire {
            Wire::OpenAi => ("chatcmpl-", "call_"),
            Wire::Anthropic => ("msg_", "toolu_"),
        };
        let fill = |text: &Option<String>| text.as_deref().map(|text| request.fill(text));
        let calls: Vec<FilledToolCall> = reply
            .calls
            .iter()
            .enumerate()
            .map(|(index, given)| FilledToolCall {
                id: given.id.clone().unwrap_or_else(|| format!("{call}{tail}{index:02}")),
                name: given.name.clone(),
                arguments: arguments(given, request),
                fields: given.fields.clone(),
            })
            .collect();
        let (thinking, text, refusal) =
            (fill(&reply.thinking), fill(&reply.text), fill(&reply.refusal));
        let chars =
            [&thinking, &text, &refusal].into_iter().flatten().map(|text| text.chars().count());
        let chars =
            chars.chain(calls.iter().map(|call| call.name.len() + call.arguments.len())).sum();
        let estimate = || Usage {
            input_tokens: tokens(request.size),
            output_tokens: tokens(chars),
            ..Usage::default()
        };
        Self {
            id: format!("{message}{tail}"),
            model: request.model.clone(),
            usage: reply.usage.unwrap_or_else(estimate),
            thinking,
            fields: reply.fields.clone(),
            text: text.filter(|text| !text.is_empty()),
            refusal,
            calls,
            stop: reply.stop.clone(),
            wants_usage: request.wants_usage,
            chunk_chars: chunk_chars.unwrap_or(CHUNK_CHARS),
        }
    }

    /// Splits a text into the chunks of a stream.
    pub(crate) fn chunks<'a>(&self, text: &'a str) -> impl Iterator<Item = &'a str> + use<'a> {
        let chars = self.chunk_chars.max(1);
        let mut rest = text;
        std::iter::from_fn(move || {
            let end = rest.char_indices().nth(chars).map_or(rest.len(), |(at, _)| at);
            let (chunk, after) = rest.split_at(end);
            rest = after;
            (!chunk.is_empty()).then_some(chunk)
        })
    }
}

fn tokens(chars: usize) -> u64 {
    u64::try_from(chars / 4).unwrap_or(u64::MAX).max(1)
}

fn arguments(call: &ToolCall, request: &ModelRequest) -> String {
    match &call.arguments {
        CallArguments::Raw(raw) => raw.clone(),
        CallArguments::Json(json) => filled(json, request).to_string(),
    }
}

fn filled(value: &Value, request: &ModelRequest) -> Value {
    match value {
        Value::String(text) => request.fill(text).into(),
        Value::Array(values) => values.iter().map(|value| filled(value, request)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), filled(value, request))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}
