//! Answers on the Anthropic Messages wire.

use serde_json::{Value, json};

use crate::filled_reply::{FilledReply, FilledToolCall};

/// The opaque signature of thinking blocks, which clients send back.
pub(crate) const SIGNATURE: &str = "c2NyaXB0ZWQgdGhpbmtpbmc=";

pub(crate) fn body(reply: &FilledReply) -> String {
    let thinking = reply
        .thinking
        .iter()
        .map(|thinking| json!({"type": "thinking", "thinking": thinking, "signature": SIGNATURE}));
    let text = text(reply).map(|text| json!({"type": "text", "text": text}));
    let calls = reply.calls.iter().map(|call| tool_use(call, input(call)));
    let content: Vec<Value> = thinking.chain(text).chain(calls).collect();
    message(reply, content, stop_reason(reply).into(), reply.usage.output_tokens).to_string()
}

pub(crate) fn events(reply: &FilledReply) -> Vec<String> {
    let start = json!({"type": "message_start", "message": message(reply, vec![], Value::Null, 1)});
    let mut events = vec![event(&start)];
    let mut index = 0;
    let mut block = |start: Value, deltas: Vec<Value>| {
        events.push(event(
            &json!({"type": "content_block_start", "index": index, "content_block": start}),
        ));
        if index == 0 {
            events.push(event(&json!({"type": "ping"})));
        }
        for delta in deltas {
            events.push(event(
                &json!({"type": "content_block_delta", "index": index, "delta": delta}),
            ));
        }
        events.push(event(&json!({"type": "content_block_stop", "index": index})));
        index += 1;
    };
    if let Some(thinking) = &reply.thinking {
        let deltas = reply
            .chunks(thinking)
            .map(|chunk| json!({"type": "thinking_delta", "thinking": chunk}));
        let signature = json!({"type": "signature_delta", "signature": SIGNATURE});
        let start = json!({"type": "thinking", "thinking": "", "signature": ""});
        block(start, deltas.chain([signature]).collect());
    }
    if let Some(text) = text(reply) {
        let deltas = reply.chunks(text).map(|chunk| json!({"type": "text_delta", "text": chunk}));
        block(json!({"type": "text", "text": ""}), deltas.collect());
    }
    for call in &reply.calls {
        // The first fragment is empty; a call without arguments has no other.
        let arguments = if call.arguments == "{}" { "" } else { &call.arguments };
        let fragments = [""].into_iter().chain(reply.chunks(arguments));
        let deltas =
            fragments.map(|fragment| json!({"type": "input_json_delta", "partial_json": fragment}));
        let start = tool_use(call, json!({}));
        block(start, deltas.collect());
    }
    events.push(event(&json!({
        "type": "message_delta",
        "delta": {"stop_reason": stop_reason(reply), "stop_sequence": null},
        "usage": usage(reply, reply.usage.output_tokens),
    })));
    events.push(event(&json!({"type": "message_stop"})));
    events
}

fn message(
    reply: &FilledReply,
    content: Vec<Value>,
    stop_reason: Value,
    output_tokens: u64,
) -> Value {
    json!({
        "id": reply.id,
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": null,
        "usage": usage(reply, output_tokens),
    })
}

/// A refusal is signalled by the stop reason; its text is ordinary text.
fn text(reply: &FilledReply) -> Option<&String> {
    reply.text.as_ref().or_else(|| reply.refusal.as_ref().filter(|words| !words.is_empty()))
}

fn tool_use(call: &FilledToolCall, input: Value) -> Value {
    let mut block = json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input});
    for (name, value) in &call.fields {
        block[name.as_str()] = value.clone();
    }
    block
}

/// Invalid JSON can only be sent in the fragments of a stream; without a stream it becomes a
/// string.
fn input(call: &FilledToolCall) -> Value {
    serde_json::from_str(&call.arguments).unwrap_or_else(|_| call.arguments.clone().into())
}

fn stop_reason(reply: &FilledReply) -> &str {
    match reply.stop.as_deref() {
        Some(stop) => stop,
        None if reply.refusal.is_some() => "refusal",
        None if reply.calls.is_empty() => "end_turn",
        None => "tool_use",
    }
}

/// On this wire, `input_tokens` excludes tokens read from and written to the cache.
fn usage(reply: &FilledReply, output_tokens: u64) -> Value {
    let usage = &reply.usage;
    json!({
        "input_tokens": usage.input_tokens.saturating_sub(usage.cache_read_tokens + usage.cache_write_tokens),
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "output_tokens": output_tokens,
    })
}

pub(crate) fn error(status: u16, kind: Option<&str>, message: &str, request_id: &str) -> Value {
    let usual = match status {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        400..=499 => "invalid_request_error",
        504 => "timeout_error",
        529 => "overloaded_error",
        _ => "api_error",
    };
    json!({
        "type": "error",
        "error": {"type": kind.unwrap_or(usual), "message": message},
        "request_id": request_id,
    })
}

pub(crate) fn error_event(kind: Option<&str>, message: &str) -> String {
    let error = json!({"type": kind.unwrap_or("overloaded_error"), "message": message});
    event(&json!({"type": "error", "error": error}))
}

fn event(data: &Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or_default())
}

/// An event with invalid JSON.
pub(crate) const MALFORMED_EVENT: &str =
    "event: content_block_delta\ndata: {\"type\": \"content_block_delta\", \"delta\": [}\n\n";
