//! Answers on the OpenAI Chat Completions wire.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::said::Said;

pub(crate) fn body(said: &Said) -> String {
    let calls: Vec<Value> = said
        .calls
        .iter()
        .map(|call| {
            let function = json!({"name": call.name, "arguments": call.arguments});
            json!({"id": call.id, "type": "function", "function": function})
        })
        .collect();
    let mut message = json!({
        "role": "assistant", "content": content(said), "refusal": said.refusal, "annotations": [],
    });
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    let choice = json!({"index": 0, "message": message, "logprobs": null, "finish_reason": finish_reason(said)});
    json!({
        "id": said.id,
        "object": "chat.completion",
        "created": now(),
        "model": said.model,
        "choices": [choice],
        "usage": usage(said),
        "service_tier": "default",
        "system_fingerprint": FINGERPRINT,
    })
    .to_string()
}

pub(crate) fn events(said: &Said) -> Vec<String> {
    let created = now();
    let chunk = |choices: Value, usage: Value| {
        let mut chunk = json!({
            "id": said.id,
            "object": "chat.completion.chunk",
            "created": created,
            "model": said.model,
            "service_tier": "default",
            "system_fingerprint": FINGERPRINT,
            "choices": choices,
        });
        // The field is there, as null, in the chunks before the last, but only if it was asked for.
        if said.wants_usage {
            chunk["usage"] = usage;
        }
        event(&chunk)
    };
    let choice = |delta: Value, finish_reason: Value| json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish_reason}]);
    let mut events: Vec<String> = deltas(said)
        .into_iter()
        .map(|delta| chunk(choice(delta, Value::Null), Value::Null))
        .chain([chunk(choice(json!({}), finish_reason(said).into()), Value::Null)])
        .collect();
    if said.wants_usage {
        events.push(chunk(json!([]), usage(said)));
    }
    events.push("data: [DONE]\n\n".to_owned());
    events
}

fn deltas(said: &Said) -> Vec<Value> {
    // The first has the role; the content is a text, or null if there are only calls.
    let first = content(said).map(|_| "");
    let mut deltas = vec![json!({"role": "assistant", "content": first, "refusal": null})];
    let text = said.text.as_deref().unwrap_or_default();
    deltas.extend(said.chunks(text).map(|chunk| json!({"content": chunk})));
    let refusal = said.refusal.as_deref().unwrap_or_default();
    deltas.extend(said.chunks(refusal).map(|chunk| json!({"refusal": chunk})));
    for (index, call) in said.calls.iter().enumerate() {
        let function = json!({"name": call.name, "arguments": ""});
        deltas.push(json!({"tool_calls": [
            {"index": index, "id": call.id, "type": "function", "function": function}
        ]}));
        deltas.extend(said.chunks(&call.arguments).map(
            |chunk| json!({"tool_calls": [{"index": index, "function": {"arguments": chunk}}]}),
        ));
    }
    deltas
}

const FINGERPRINT: &str = "fp_script";

fn content(said: &Said) -> Option<&str> {
    match &said.text {
        Some(text) => Some(text),
        None if said.calls.is_empty() && said.refusal.is_none() => Some(""),
        None => None,
    }
}

fn finish_reason(said: &Said) -> &str {
    match said.stop.as_deref() {
        Some("max_tokens") => "length",
        Some(other) => other,
        None if said.calls.is_empty() => "stop",
        None => "tool_calls",
    }
}

fn usage(said: &Said) -> Value {
    let usage = &said.usage;
    json!({
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0, "audio_tokens": 0,
            "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0,
        },
    })
}

pub(crate) fn error(status: u16, kind: Option<&str>, message: &str) -> Value {
    let (usual, code) = match status {
        401 => ("invalid_request_error", Some("invalid_api_key")),
        403 => ("invalid_request_error", Some("unsupported_country_region_territory")),
        404 => ("invalid_request_error", Some("model_not_found")),
        429 => ("requests", Some("rate_limit_exceeded")),
        400..=499 => ("invalid_request_error", None),
        _ => ("server_error", None),
    };
    json!({"error": {"message": message, "type": kind.unwrap_or(usual), "param": null, "code": code}})
}

pub(crate) fn error_event(kind: Option<&str>, message: &str) -> String {
    event(&error(500, kind, message))
}

pub(crate) fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}

/// What no parser takes, where a chunk should be.
pub(crate) const MALFORMED_EVENT: &str =
    "data: {\"object\": \"chat.completion.chunk\", \"choices\": [}\n\n";

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
