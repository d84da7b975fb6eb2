use adjutant_agent::{StopReason, Usage};

use super::*;

fn stream(events: &[Value]) -> String {
    events
        .iter()
        .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()))
        .collect()
}

fn message_start() -> Value {
    json!({"type": "message_start", "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-test", "content": [],
        "stop_reason": null,
        "usage": {"input_tokens": 10, "cache_creation_input_tokens": 200, "cache_read_input_tokens": 3000, "output_tokens": 1},
    }})
}

fn start(index: u64, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: u64, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn text_delta(index: u64, text: &str) -> Value {
    delta(index, json!({"type": "text_delta", "text": text}))
}

fn arguments(index: u64, piece: &str) -> Value {
    delta(index, json!({"type": "input_json_delta", "partial_json": piece}))
}

fn end(reason: &str) -> [Value; 2] {
    let usage = json!({"output_tokens": 42});
    [
        json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null}, "usage": usage}),
        json!({"type": "message_stop"}),
    ]
}

fn of(events: &[Value], reason: &str) -> String {
    stream(&[&[message_start()], events, &end(reason)].concat())
}

#[track_caller]
fn answered(events: &[Value], reason: &str) -> Answer {
    read(Wire::Anthropic, [of(events, reason).as_bytes()]).0.unwrap().answer
}

#[test]
fn a_stream_is_the_same_answer_wherever_it_is_cut_and_none_when_it_is_cut_off() {
    let events = [
        start(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
        json!({"type": "ping"}),
        delta(0, json!({"type": "thinking_delta", "thinking": "Hm, "})),
        delta(0, json!({"type": "thinking_delta", "thinking": "ä."})),
        delta(0, json!({"type": "signature_delta", "signature": "c2ln"})),
        json!({"type": "content_block_stop", "index": 0}),
        start(1, json!({"type": "text", "text": ""})),
        text_delta(1, "Grüße, "),
        text_delta(1, "🦀\n\nWelt"),
        start(2, json!({"type": "tool_use", "id": "toolu_1", "name": "fetch", "input": {}})),
        start(3, json!({"type": "tool_use", "id": "toolu_2", "name": "now", "input": {}})),
        arguments(2, ""),
        arguments(2, "{\"url\": \"http"),
        arguments(2, "://x/ä\"}"),
    ];
    let reply = read_cut_everywhere(
        Wire::Anthropic,
        &of(&events, "tool_use"),
        "{\"type\":\"message_stop\"}",
    );
    let thinking = json!({"type": "thinking", "thinking": "Hm, ä.", "signature": "c2ln"});
    assert_eq!(
        reply.answer,
        answer(vec![
            Block::Opaque { wire: "anthropic".to_owned(), value: thinking },
            text("Grüße, 🦀\n\nWelt"),
            call("toolu_1", "fetch", json!({"url": "http://x/ä"})),
            call("toolu_2", "now", json!({})),
        ])
    );
    assert_eq!((reply.id.as_deref(), reply.model.as_deref()), (Some("msg_1"), Some("claude-test")));
    assert_eq!(
        reply.usage,
        Usage {
            input_tokens: 3210,
            output_tokens: 42,
            cache_read_tokens: 3000,
            cache_write_tokens: 200,
            cost_nanousd: 10 * 1000 + 3000 * 100 + 200 * 1250 + 42 * 2000,
            estimated: false,
        }
    );
}

#[test]
fn counts_at_the_end_replace_those_at_the_start() {
    let usage = json!({"input_tokens": 20, "cache_read_input_tokens": 1, "output_tokens": 5});
    let last =
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage});
    let events = stream(&[message_start(), last, json!({"type": "message_stop"})]);
    let usage = read(Wire::Anthropic, [events.as_bytes()]).0.unwrap().usage;
    assert_eq!(
        (usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens),
        (221, 1, 200)
    );
    assert_eq!(usage.output_tokens, 5);
}

#[test]
fn an_answer_in_one_piece_is_parsed() {
    let body = json!({
        "id": "msg_1", "model": "claude-test", "role": "assistant",
        "content": [
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "toolu_1", "name": "fetch", "input": {"url": "x"}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 3, "output_tokens": 4},
    });
    let (reply, streamed_text) = read(Wire::Anthropic, [body.to_string().as_bytes()]);
    let reply = reply.unwrap();
    assert_eq!(
        reply.answer,
        answer(vec![text("I look."), call("toolu_1", "fetch", json!({"url": "x"}))])
    );
    assert_eq!((reply.usage.input_tokens, reply.usage.output_tokens), (3, 4));
    assert_eq!(streamed_text, "I look.");
}

#[test]
fn stop_reasons_are_distinguished() {
    let said = [start(0, json!({"type": "text", "text": ""})), text_delta(0, "I will not")];
    for (reason, stop) in [
        ("end_turn", StopReason::End),
        ("stop_sequence", StopReason::End),
        ("something_new", StopReason::End),
        ("max_tokens", StopReason::MaxTokens),
        ("model_context_window_exceeded", StopReason::MaxTokens),
        ("refusal", StopReason::Refusal),
    ] {
        assert_eq!(
            answered(&said, reason),
            Answer { content: vec![text("I will not")], stop },
            "{reason}"
        );
    }
}

#[test]
fn empty_content_is_an_empty_answer() {
    assert_eq!(answered(&[], "end_turn"), answer(vec![]));
    assert_eq!(
        answered(&[start(0, json!({"type": "text", "text": ""}))], "end_turn"),
        answer(vec![])
    );
}

#[test]
fn arguments_and_thinking_that_were_cut_off_are_marked_and_left_out() {
    let events = [
        start(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
        delta(0, json!({"type": "thinking_delta", "thinking": "Hm"})),
        start(1, json!({"type": "tool_use", "id": "toolu_1", "name": "fetch", "input": {}})),
        arguments(1, "{\"url\": \"ht"),
    ];
    let content = vec![cut_off("toolu_1", "fetch", "{\"url\": \"ht")];
    assert_eq!(answered(&events, "max_tokens"), Answer { content, stop: StopReason::MaxTokens });
}

#[test]
fn an_error_in_a_stream_is_classified_by_its_type() {
    let failing = |kind: &str| {
        let error = json!({"type": "error", "error": {"type": kind, "message": "Of some kind"}});
        read(Wire::Anthropic, [stream(&[message_start(), error]).as_bytes()]).0.unwrap_err()
    };
    for kind in ["overloaded_error", "rate_limit_error"] {
        let error = failing(kind);
        assert!(matches!(error, CallError::RateLimited { .. }), "{kind}");
        assert_eq!(error.to_string(), format!("Model API error: {kind}: Of some kind"));
    }
    for kind in ["api_error", "timeout_error", "something_new"] {
        assert!(matches!(failing(kind), CallError::Transient { .. }), "{kind}");
    }
    assert!(matches!(failing("invalid_request_error"), CallError::Permanent { .. }));
}

#[test]
fn bytes_that_are_not_an_answer_are_an_error() {
    let fails = |bytes: &str| read(Wire::Anthropic, [bytes.as_bytes()]).0.unwrap_err();
    for bytes in [
        "",
        "\n\n",
        "{\"content\": [",
        "data: {broken\n\n",
        "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
    ] {
        assert!(matches!(fails(bytes), CallError::Transient { .. }), "{bytes}");
    }
    for bytes in ["{}", "[]", "{\"content\": null}", "<html>Welcome</html>"] {
        assert!(matches!(fails(bytes), CallError::Permanent { .. }), "{bytes}");
    }
}

#[test]
fn a_call_at_the_token_limit_is_cut_off_even_if_its_arguments_are_an_object() {
    let now = start(0, json!({"type": "tool_use", "id": "toolu_1", "name": "now", "input": {}}));
    let fetch =
        start(1, json!({"type": "tool_use", "id": "toolu_2", "name": "fetch", "input": {}}));
    let events = [fetch.clone(), arguments(1, "{\"n\": 1}"), now.clone()];
    let content = vec![call("toolu_2", "fetch", json!({"n": 1})), cut_off("toolu_1", "now", "")];
    assert_eq!(answered(&events, "max_tokens").content, content);
    let events = [now, fetch, arguments(1, "{\"n\": 1}")];
    let content = vec![cut_off("toolu_1", "now", ""), cut_off("toolu_2", "fetch", "{\"n\": 1}")];
    assert_eq!(answered(&events, "max_tokens").content, content);
}

#[test]
fn fields_of_a_call_that_are_not_known_are_kept() {
    let caller = json!({"type": "direct"});
    let block =
        json!({"type": "tool_use", "id": "a", "name": "now", "input": {}, "caller": caller});
    let answer = answered(&[start(0, block)], "tool_use");
    let extra = answer.tool_uses().next().unwrap().extra.clone().unwrap();
    assert_eq!((extra.wire.as_str(), &extra.fields["caller"]), ("anthropic", &caller));
}
