//! A reply made ready for one request: placeholders filled in, ids given, figures counted.

use serde_json::Value;

use crate::answer::{Call, CallArguments, Reply, Usage};
use crate::asked::{Asked, Wire};

/// The characters of an event's text if the answer does not say.
const CHUNK_CHARS: usize = 48;

pub(crate) struct Said {
    pub(crate) id: String,
    pub(crate) model: String,
    pub(crate) thinking: Option<String>,
    /// None if it is empty.
    pub(crate) text: Option<String>,
    pub(crate) refusal: Option<String>,
    pub(crate) calls: Vec<SaidCall>,
    pub(crate) stop: Option<String>,
    pub(crate) usage: Usage,
    pub(crate) wants_usage: bool,
    chunk_chars: usize,
}

pub(crate) struct SaidCall {
    pub(crate) id: String,
    pub(crate) name: String,
    /// As text: not JSON if the script wants it so.
    pub(crate) arguments: String,
}

impl Said {
    pub(crate) fn new(reply: &Reply, asked: &Asked, chunk_chars: Option<usize>) -> Self {
        // The same for the same turn: a conversation with a crash in it ends up like one without.
        let tail = format!("{:016x}{:04}", asked.conversation, asked.turn);
        let (message, call) = match asked.wire {
            Wire::OpenAi => ("chatcmpl-", "call_"),
            Wire::Anthropic => ("msg_", "toolu_"),
        };
        let fill = |text: &Option<String>| text.as_deref().map(|text| asked.fill(text));
        let calls: Vec<SaidCall> = reply
            .calls
            .iter()
            .enumerate()
            .map(|(index, given)| SaidCall {
                id: given.id.clone().unwrap_or_else(|| format!("{call}{tail}{index:02}")),
                name: given.name.clone(),
                arguments: arguments(given, asked),
            })
            .collect();
        let (thinking, text, refusal) =
            (fill(&reply.thinking), fill(&reply.text), fill(&reply.refusal));
        let chars =
            [&thinking, &text, &refusal].into_iter().flatten().map(|text| text.chars().count());
        let chars =
            chars.chain(calls.iter().map(|call| call.name.len() + call.arguments.len())).sum();
        let estimate = || Usage {
            input_tokens: tokens(asked.size),
            output_tokens: tokens(chars),
            ..Usage::default()
        };
        Self {
            id: format!("{message}{tail}"),
            model: asked.model.clone(),
            usage: reply.usage.unwrap_or_else(estimate),
            thinking,
            text: text.filter(|text| !text.is_empty()),
            refusal,
            calls,
            stop: reply.stop.clone(),
            wants_usage: asked.wants_usage,
            chunk_chars: chunk_chars.unwrap_or(CHUNK_CHARS),
        }
    }

    /// A text in the pieces in which a stream has it.
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

fn arguments(call: &Call, asked: &Asked) -> String {
    match &call.arguments {
        CallArguments::Raw(raw) => raw.clone(),
        CallArguments::Json(json) => filled(json, asked).to_string(),
    }
}

fn filled(value: &Value, asked: &Asked) -> Value {
    match value {
        Value::String(text) => asked.fill(text).into(),
        Value::Array(values) => values.iter().map(|value| filled(value, asked)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), filled(value, asked))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}
