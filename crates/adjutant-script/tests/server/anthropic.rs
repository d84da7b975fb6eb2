//! The Anthropic wire.

use std::time::Duration;

use adjutant_script::{
    Script, Usage, When, Wire::Anthropic, empty, raw_tool_call, refusal, text, tool_call,
};
use serde_json::{Value, json};

use crate::client::{Event, play, request, user};

const USAGE: Usage =
    Usage { input_tokens: 100, output_tokens: 7, cache_read_tokens: 60, cache_write_tokens: 10 };

fn names(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.name.as_str()).collect()
}

/// Of all deltas with this field, what they say together.
fn joined(events: &[Event], index: usize, field: &str) -> String {
    let deltas =
        events.iter().map(Event::json).filter(|event| event["type"] == "content_block_delta");
    let mine = deltas.filter(|event| event["index"] == index);
    mine.filter_map(|event| event["delta"][field].as_str().map(str::to_owned)).collect()
}

#[tokio::test]
async fn a_message_comes_whole_with_thinking_text_calls_and_usage() {
    let answer = text("I look.")
        .with_thinking("Hm.")
        .and_call("fetch", json!({"url": "{assignment}"}))
        .and_call("f", json!({}))
        .with_call_id("toolu_mine")
        .with_usage(USAGE);
    let (server, client) = play(Script::new().answer(answer)).await;
    let answer: Value =
        client.send(Anthropic, &request(json!([user("http://x")]))).await.json().await.unwrap();
    assert_eq!((&answer["type"], &answer["role"]), (&json!("message"), &json!("assistant")));
    assert_eq!(answer["stop_reason"], "tool_use");
    let content = answer["content"].as_array().unwrap();
    assert_eq!((&content[0]["type"], &content[0]["thinking"]), (&json!("thinking"), &json!("Hm.")));
    assert!(!content[0]["signature"].as_str().unwrap().is_empty());
    assert_eq!(content[1], json!({"type": "text", "text": "I look."}));
    assert_eq!((&content[2]["type"], &content[2]["name"]), (&json!("tool_use"), &json!("fetch")));
    assert_eq!(content[2]["input"], json!({"url": "http://x"}));
    assert!(content[2]["id"].as_str().unwrap().starts_with("toolu_"));
    assert_eq!(content[3]["id"], "toolu_mine");
    let counts = json!({"input_tokens": 30, "cache_creation_input_tokens": 10, "cache_read_input_tokens": 60,
        "output_tokens": 7});
    assert_eq!(answer["usage"], counts, "the input is without the cache's part");
    server.finish();
}

#[tokio::test]
async fn a_text_streams_as_the_named_events_of_the_wire() {
    let answer = text("Hello there").chunks(6, Duration::ZERO).with_usage(USAGE);
    let (server, client) = play(Script::new().answer(answer)).await;
    let events = client.stream(Anthropic, request(json!([user("x")]))).await;
    assert_eq!(
        names(&events),
        [
            "message_start",
            "content_block_start",
            "ping",
            "content_block_delta",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop"
        ]
    );
    assert!(events.iter().all(|event| event.json()["type"] == event.name.as_str()));
    let start = &events[0].json()["message"];
    assert_eq!(start["usage"]["cache_read_input_tokens"], 60);
    assert_eq!((&start["content"], &start["stop_reason"]), (&json!([]), &Value::Null));
    assert_eq!(joined(&events, 0, "text"), "Hello there");
    let end = events[6].json();
    assert_eq!(end["delta"], json!({"stop_reason": "end_turn", "stop_sequence": null}));
    assert_eq!(end["usage"]["output_tokens"], 7);
    server.finish();
}

#[tokio::test]
async fn thinking_and_tool_calls_stream_in_blocks_of_their_own() {
    let answer = text("So.")
        .with_thinking("Hm, well.")
        .and_call("fetch", json!({"url": "http://example.com"}))
        .and_call("now", json!({}))
        .chunks(7, Duration::ZERO);
    let (server, client) = play(Script::new().answer(answer)).await;
    let events = client.stream(Anthropic, request(json!([user("x")]))).await;
    let starts: Vec<Value> = events
        .iter()
        .filter(|event| event.name == "content_block_start")
        .map(|event| event.json()["content_block"]["type"].clone())
        .collect();
    assert_eq!(starts, ["thinking", "text", "tool_use", "tool_use"]);
    assert_eq!(joined(&events, 0, "thinking"), "Hm, well.");
    assert!(!joined(&events, 0, "signature").is_empty());
    assert_eq!(joined(&events, 1, "text"), "So.");
    assert_eq!(joined(&events, 2, "partial_json"), "{\"url\":\"http://example.com\"}");
    assert_eq!(joined(&events, 3, "partial_json"), "");
    server.finish();
}

#[tokio::test]
async fn malformed_arguments_refusals_cut_off_and_empty_answers_are_in_the_wires_words() {
    let script = Script::new()
        .on(When::assignment("raw"))
        .answer(raw_tool_call("f", "{not json"))
        .on(When::assignment("refuse"))
        .answer(refusal("I will not."))
        .on(When::assignment("long"))
        .answer(tool_call("f", json!({})).with_stop("max_tokens"))
        .on(When::assignment("nothing"))
        .answer(empty());
    let (server, client) = play(script).await;
    let call = async |word: &str| -> Value {
        client.send(Anthropic, &request(json!([user(word)]))).await.json().await.unwrap()
    };
    assert_eq!(call("raw").await["content"][0]["input"], "{not json");
    let refused = call("refuse").await;
    assert_eq!(
        (&refused["stop_reason"], &refused["content"][0]["text"]),
        (&json!("refusal"), &json!("I will not."))
    );
    assert_eq!(call("long").await["stop_reason"], "max_tokens");
    let nothing = call("nothing").await;
    assert_eq!((&nothing["content"], &nothing["stop_reason"]), (&json!([]), &json!("end_turn")));

    let stream = async |word: &str| client.stream(Anthropic, request(json!([user(word)]))).await;
    assert_eq!(joined(&stream("raw").await, 0, "partial_json"), "{not json");
    assert_eq!(names(&stream("nothing").await), ["message_start", "message_delta", "message_stop"]);
    let events = stream("refuse").await;
    assert_eq!(events[events.len() - 2].json()["delta"]["stop_reason"], "refusal");
    server.finish();
}
