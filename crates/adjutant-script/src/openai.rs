//! Answers on the OpenAI Chat Completions wire.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

use crate::filled_reply::FilledReply;

pub(crate) fn body(reply: &FilledReply) -> String {
    let calls: Vec<Value> = reply
        .calls
        .iter()
        .map(|call| {
            let function = json!({"name": call.name, "arguments": call.arguments});
            let mut sent = json!({"id": call.id, "type": "function", "function": function});
            add(&mut sent, &call.fields);
            sent
        })
        .collect();
    let mut message = json!({
        "role": "assistant", "content": content(reply), "refusal": reply.refusal, "annotations": [],
    });
    add(&mut message, &reply.fields);
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    let choice = json!({"index": 0, "message": message, "logprobs": null, "finish_reason": finish_reason(reply)});
    json!({
        "id": reply.id,
        "object": "chat.completion",
        "created": now(),
        "model": reply.model,
        "choices": [choice],
        "usage": usage(reply),
        "service_tier": "default",
        "system_fingerprint": FINGERPRINT,
    })
    .to_string()
}

pub(crate) fn events(reply: &FilledReply) -> Vec<String> {
    let created = now();
    let chunk = |choices: Value, usage: Value| {
        let mut chunk = json!({
            "id": reply.id,
            "object": "chat.completion.chunk",
            "created": created,
            "model": reply.model,
            "service_tier": "default",
            "system_fingerprint": FINGERPRINT,
            "choices": choices,
        });
        // With `include_usage`, all chunks before the last have the field as null.
        if reply.wants_usage {
            chunk["usage"] = usage;
        }
        event(&chunk)
    };
    let choice = |delta: Value, finish_reason: Value| json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish_reason}]);
    let mut events: Vec<String> = deltas(reply)
        .into_iter()
        .map(|delta| chunk(choice(delta, Value::Null), Value::Null))
        .chain([chunk(choice(json!({}), finish_reason(reply).into()), Value::Null)])
        .collect();
    if reply.wants_usage {
        events.push(chunk(json!([]), usage(reply)));
    }
    events.push("data: [DONE]\n\n".to_owned());
    events
}

fn deltas(reply: &FilledReply) -> Vec<Value> {
    // The first chunk has the role, and null as its content if there are only tool calls.
    let first = content(reply).map(|_| "");
    let mut deltas = vec![json!({"role": "assistant", "content": first, "refusal": null})];
    deltas.extend(reply.fields.iter().flat_map(|(name, value)| pieces(reply, name, value)));
    let text = reply.text.as_deref().unwrap_or_default();
    deltas.extend(reply.chunks(text).map(|chunk| json!({"content": chunk})));
    let refusal = reply.refusal.as_deref().unwrap_or_default();
    deltas.extend(reply.chunks(refusal).map(|chunk| json!({"refusal": chunk})));
    for (index, call) in reply.calls.iter().enumerate() {
        let function = json!({"name": call.name, "arguments": ""});
        let mut first =
            json!({"index": index, "id": call.id, "type": "function", "function": function});
        add(&mut first, &call.fields);
        deltas.push(json!({"tool_calls": [first]}));
        deltas.extend(reply.chunks(&call.arguments).map(
            |chunk| json!({"tool_calls": [{"index": index, "function": {"arguments": chunk}}]}),
        ));
    }
    deltas
}

fn add(object: &mut Value, fields: &Map<String, Value>) {
    for (name, value) in fields {
        object[name.as_str()] = value.clone();
    }
}

/// A text in pieces, and the numbered items of a list with their texts in pieces.
fn pieces(reply: &FilledReply, name: &str, value: &Value) -> Vec<Value> {
    match value {
        Value::String(text) => reply.chunks(text).map(|chunk| json!({name: chunk})).collect(),
        Value::Array(items) => items
            .iter()
            .flat_map(|item| {
                let texts: Vec<&str> =
                    item["text"].as_str().map_or(vec![], |text| reply.chunks(text).collect());
                if texts.is_empty() {
                    return vec![json!({name: [item]})];
                }
                let piece = |text: &&str| {
                    let mut piece = item.clone();
                    piece["text"] = (*text).into();
                    json!({name: [piece]})
                };
                texts.iter().map(piece).collect()
            })
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
            vec![json!({name: value})]
        }
    }
}

const FINGERPRINT: &str = "fp_script";

fn content(reply: &FilledReply) -> Option<&str> {
    match &reply.text {
        Some(text) => Some(text),
        None if reply.calls.is_empty() && reply.refusal.is_none() => Some(""),
        None => None,
    }
}

fn finish_reason(reply: &FilledReply) -> &str {
    match reply.stop.as_deref() {
        Some("max_tokens") => "length",
        Some(other) => other,
        None if reply.calls.is_empty() => "stop",
        None => "tool_calls",
    }
}

fn usage(reply: &FilledReply) -> Value {
    let usage = &reply.usage;
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

/// An event with invalid JSON.
pub(crate) const MALFORMED_EVENT: &str =
    "data: {\"object\": \"chat.completion.chunk\", \"choices\": [}\n\n";

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
