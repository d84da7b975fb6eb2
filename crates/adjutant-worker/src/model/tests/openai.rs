use adjutant_agent::{StopReason, Usage};

use super::*;

fn chunk(delta: Value, finish: Option<&str>) -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "gpt-test",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": null,
    })
}

fn usage() -> Value {
    let details = json!({"cached_tokens": 60});
    json!({
        "id": "chatcmpl-1", "model": "gpt-test", "choices": [],
        "usage": {"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": details},
    })
}

fn stream(events: &[Value]) -> String {
    let events: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    events + "data: [DONE]\n\n"
}

fn calls(pieces: Value) -> Value {
    chunk(json!({"tool_calls": pieces}), None)
}

#[track_caller]
fn answered(events: &[Value]) -> Answer {
    read(Wire::OpenAi, [stream(events).as_bytes()]).0.unwrap().answer
}

#[test]
fn a_stream_is_the_same_answer_wherever_it_is_cut_and_none_when_it_is_cut_off() {
    let events = stream(&[
        chunk(json!({"role": "assistant", "content": ""}), None),
        chunk(json!({"content": "Grüße, "}), None),
        chunk(json!({"content": "🦀"}), None),
        calls(
            json!([{"index": 0, "id": "call_a", "type": "function", "function": {"name": "fetch", "arguments": ""}}]),
        ),
        calls(json!([{"index": 0, "function": {"arguments": "{\"url\":"}}])),
        calls(
            json!([{"index": 1, "id": "call_b", "type": "function", "function": {"name": "now", "arguments": ""}}]),
        ),
        calls(json!([{"index": 0, "function": {"arguments": "\"ä\"}"}}])),
        chunk(json!({}), Some("tool_calls")),
        usage(),
    ]);
    let finish = "\"finish_reason\":\"tool_calls\",\"index\":0}],\"id\":\"chatcmpl-1\",\"model\":\"gpt-test\",\
                  \"object\":\"chat.completion.chunk\",\"usage\":null}";
    let reply = read_cut_everywhere(Wire::OpenAi, &events, finish);
    let content = vec![
        text("Grüße, 🦀"),
        call("call_a", "fetch", json!({"url": "ä"})),
        call("call_b", "now", json!({})),
    ];
    assert_eq!(reply.answer, answer(content));
    assert_eq!(
        (reply.id.as_deref(), reply.model.as_deref()),
        (Some("chatcmpl-1"), Some("gpt-test"))
    );
    assert_eq!(
        reply.usage,
        Usage {
            input_tokens: 100,
            output_tokens: 7,
            cache_read_tokens: 60,
            cache_write_tokens: 0,
            cost_nanousd: 40 * 1000 + 60 * 100 + 7 * 2000,
            estimated: false,
        }
    );
}

#[test]
fn an_answer_in_one_piece_is_parsed() {
    let function = json!({"name": "fetch", "arguments": "{\"url\": \"x\"}"});
    let message = json!({
        "role": "assistant", "content": null,
        "tool_calls": [{"id": "call_a", "type": "function", "function": function}],
    });
    let body = json!({
        "id": "chatcmpl-1", "model": "gpt-test",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4},
    });
    let (reply, streamed_text) = read(Wire::OpenAi, [body.to_string().as_bytes()]);
    let reply = reply.unwrap();
    assert_eq!(reply.answer, answer(vec![call("call_a", "fetch", json!({"url": "x"}))]));
    assert_eq!((reply.usage.input_tokens, reply.usage.output_tokens), (3, 4));
    assert_eq!(streamed_text, "");
}

#[test]
fn either_end_marker_will_do_and_a_missing_count_is_estimated() {
    let said = chunk(json!({"content": "Hi"}), None);
    let without_reason = stream(std::slice::from_ref(&said));
    let without_done = format!("data: {said}\n\ndata: {}", chunk(json!({}), Some("stop")));
    for stream in [without_reason, without_done] {
        let reply = read(Wire::OpenAi, [stream.as_bytes()]).0.unwrap();
        assert_eq!(reply.answer, Answer::of_text("Hi"));
        assert_eq!((reply.usage.estimated, reply.usage.output_tokens), (true, 1));
    }
}

#[test]
fn stop_reasons_are_distinguished() {
    for (reason, stop) in [
        ("stop", StopReason::End),
        ("tool_calls", StopReason::End),
        ("eos", StopReason::End),
        ("length", StopReason::MaxTokens),
        ("content_filter", StopReason::Refusal),
    ] {
        let said = [chunk(json!({"content": "So"}), None), chunk(json!({}), Some(reason))];
        assert_eq!(answered(&said), Answer { content: vec![text("So")], stop }, "{reason}");
    }
}

#[test]
fn a_refusal_is_one_with_its_text() {
    let events = [
        chunk(json!({"role": "assistant", "content": null, "refusal": ""}), None),
        chunk(json!({"refusal": "I will "}), None),
        chunk(json!({"refusal": "not."}), None),
        chunk(json!({}), Some("stop")),
    ];
    assert_eq!(
        answered(&events),
        Answer { content: vec![text("I will not.")], stop: StopReason::Refusal }
    );
}

#[test]
fn empty_content_is_an_empty_answer_and_thoughts_are_not_text() {
    for delta in [json!({"content": null}), json!({"content": ""}), json!({})] {
        assert_eq!(answered(&[chunk(delta, Some("stop"))]), answer(vec![]));
    }
    let thought = answered(&[chunk(json!({"reasoning_content": "Hm"}), Some("stop"))]);
    let value = json!({"reasoning_content": "Hm"});
    assert_eq!(thought, answer(vec![Block::Opaque { wire: "openai".to_owned(), value }]));
}

#[test]
fn text_may_be_a_list_of_parts() {
    let parts =
        json!([{"type": "thinking", "thinking": [{"text": "Hm"}]}, {"type": "text", "text": "So"}]);
    assert_eq!(answered(&[chunk(json!({"content": parts}), Some("stop"))]), Answer::of_text("So"));
}

#[test]
fn whole_calls_without_numbers_or_ids_are_distinguished() {
    let fetch = json!({"function": {"name": "fetch", "arguments": "{\"n\":1}"}});
    let now = json!({"function": {"name": "now", "arguments": {"n": 2}}});
    let expected = answer(vec![
        call("call_1", "fetch", json!({"n": 1})),
        call("call_2", "now", json!({"n": 2})),
    ]);
    let together = [calls(json!([fetch, now])), chunk(json!({}), Some("stop"))];
    assert_eq!(answered(&together), expected);
    let apart = [calls(json!([fetch])), calls(json!([now])), chunk(json!({}), Some("stop"))];
    assert_eq!(answered(&apart), expected);
}

#[test]
fn calls_that_all_have_the_number_zero_are_distinguished() {
    let piece = |id: Option<&str>, name: &str| {
        json!({
            "index": 0, "id": id, "function": {"name": name, "arguments": "{}"},
        })
    };
    let with_ids =
        [calls(json!([piece(Some("a"), "fetch")])), calls(json!([piece(Some("b"), "fetch")]))];
    assert_eq!(
        answered(&with_ids),
        answer(vec![call("a", "fetch", json!({})), call("b", "fetch", json!({}))])
    );
    let without = [calls(json!([piece(None, "fetch")])), calls(json!([piece(None, "now")]))];
    assert_eq!(
        answered(&without),
        answer(vec![call("call_1", "fetch", json!({})), call("call_2", "now", json!({}))])
    );
}

#[test]
fn id_and_name_in_every_piece_are_one_call() {
    let piece = |arguments: &str| json!([{"index": 0, "id": "a", "function": {"name": "fetch", "arguments": arguments}}]);
    let events = ["{\"n\"", ":1}", ""].map(|arguments| calls(piece(arguments)));
    assert_eq!(answered(&events), answer(vec![call("a", "fetch", json!({"n": 1}))]));
}

#[test]
fn every_call_has_an_id_of_its_own() {
    let piece = |index: u64, id: &str| json!({"index": index, "id": id, "function": {"name": "now", "arguments": "{}"}});
    let events = [calls(json!([
        piece(0, "x"),
        piece(1, "x"),
        piece(2, ""),
        piece(3, "call_2"),
        piece(4, "")
    ]))];
    let ids = |answer: &Answer| answer.tool_uses().map(|call| call.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&answered(&events)), ["x", "call_1", "call_3", "call_2", "call_4"]);

    let mut parser = ResponseParser::new(Wire::OpenAi);
    parser.feed(stream(&events).as_bytes(), &mut |_| {}).unwrap();
    let later = parser.end(&mut |_| {}).unwrap().into_answer(7);
    assert_eq!(ids(&later), ["x", "call_8", "call_9", "call_2", "call_10"]);
}

#[test]
fn arguments_are_an_object_or_malformed() {
    let of = |arguments: Value| {
        let piece =
            json!([{"index": 0, "id": "a", "function": {"name": "now", "arguments": arguments}}]);
        answered(&[calls(piece)]).content.remove(0)
    };
    for empty in [json!(""), json!(" \n"), json!(null), json!("{}")] {
        assert_eq!(of(empty), call("a", "now", json!({})));
    }
    for odd in ["[1]", "null", "\"{}\"", "{\"a\":", "{} {}", "url=x"] {
        assert_eq!(of(json!(odd)), malformed("a", "now", odd));
    }
}

#[test]
fn an_error_in_place_of_an_answer_is_classified_by_its_type_or_code() {
    let failing = |error: Value, streamed: bool| {
        let body = json!({"error": error}).to_string();
        let bytes = if streamed { format!("data: {body}\n\n") } else { body };
        read(Wire::OpenAi, [bytes.as_bytes()]).0.unwrap_err()
    };
    for streamed in [true, false] {
        let limited = failing(json!({"message": "Slow down", "code": 429}), streamed);
        assert!(matches!(limited, CallError::RateLimited { .. }));
        assert_eq!(limited.to_string(), "Model API error: error 429: Slow down");
        let transient = failing(json!({"message": "Oh", "type": "server_error"}), streamed);
        assert!(matches!(transient, CallError::Transient { .. }));
        let permanent =
            failing(json!({"message": "No", "type": "invalid_request_error"}), streamed);
        assert!(matches!(permanent, CallError::Permanent { .. }));
        assert!(matches!(failing(json!("out of memory"), streamed), CallError::Transient { .. }));
    }
}

#[test]
fn bytes_that_are_not_an_answer_are_an_error() {
    let fails = |bytes: &str| read(Wire::OpenAi, [bytes.as_bytes()]).0.unwrap_err();
    for bytes in ["", "{\"choices\": [", "data: {broken\n\n", "data: [DONE]\n\n", "Service busy\n"]
    {
        assert!(matches!(fails(bytes), CallError::Transient { .. }), "{bytes}");
    }
    for bytes in ["{}", "[]", "{\"choices\": []}", "<!doctype html>"] {
        assert!(matches!(fails(bytes), CallError::Permanent { .. }), "{bytes}");
    }
}

#[test]
fn an_answer_without_an_end_is_rejected_before_it_fills_the_memory() {
    let event = format!("data: {}\n\n", chunk(json!({"content": "x".repeat(1 << 20)}), None));
    let (reply, text) = read(Wire::OpenAi, std::iter::repeat_n(event.as_bytes(), 100));
    assert_eq!(reply.unwrap_err().details().to_string(), "the answer is longer than 16 MiB");
    assert_eq!(text.len(), 16 << 20);
}

#[test]
fn a_call_at_the_token_limit_is_cut_off_even_if_its_arguments_are_an_object() {
    let piece = |index: u64, arguments: &str| json!({"index": index, "id": format!("c{index}"), "function": {"name": "now", "arguments": arguments}});
    for (arguments, streamed) in [("", true), ("{\"n\"", true), ("{\"n\": 1}", true), ("", false)] {
        let pieces = json!([piece(0, "{\"n\": 0}"), piece(1, arguments)]);
        let bytes = if streamed {
            stream(&[calls(pieces), chunk(json!({}), Some("length"))])
        } else {
            let message = json!({"role": "assistant", "content": null, "tool_calls": pieces});
            json!({"choices": [{"message": message, "finish_reason": "length"}]}).to_string()
        };
        let answer = read(Wire::OpenAi, [bytes.as_bytes()]).0.unwrap().answer;
        let expected = vec![call("c0", "now", json!({"n": 0})), cut_off("c1", "now", arguments)];
        assert_eq!((answer.content, answer.stop), (expected, StopReason::MaxTokens));
    }
}

#[test]
fn fields_that_are_not_known_are_kept_and_sent_back() {
    let signed = json!({"google": {"thought_signature": "c2ln"}});
    let function = json!({"name": "fetch", "arguments": "{}", "strictness": 2});
    let events = [
        chunk(json!({"role": "assistant", "content": null, "reasoning_content": ""}), None),
        chunk(json!({"reasoning_content": "Hm, "}), None),
        chunk(json!({"content": "I look.", "reasoning_content": "ä."}), None),
        calls(json!([{"index": 0, "id": "a", "extra_content": signed, "function": function}])),
        chunk(json!({}), Some("tool_calls")),
    ];
    let answer = answered(&events);
    let thought =
        Block::Opaque { wire: "openai".to_owned(), value: json!({"reasoning_content": "Hm, ä."}) };
    assert_eq!(answer.content[..2], [thought, text("I look.")]);
    let mut request = request_with("Hi");
    request.messages.push(Message::Assistant(&answer));
    let sent_by = |wire: &str| {
        let model = model(json!({"wire": wire}));
        let body = model.wire.format().request_body(&model.parameters, &request, &[]);
        body["messages"].as_array().unwrap().last().unwrap().clone()
    };
    let sent = json!({
        "role": "assistant", "content": "I look.", "reasoning_content": "Hm, ä.",
        "tool_calls": [{"id": "a", "type": "function", "extra_content": signed, "function": function}],
    });
    assert_eq!(sent_by("openai"), sent);
    let other = sent_by("anthropic").to_string();
    assert!(!other.contains("Hm") && !other.contains("c2ln"), "only to the wire that it came from");
}
