//! The OpenAI wire.

use std::time::Duration;

use adjutant_script::{
    Script, Usage, When, Wire::OpenAi, empty, raw_tool_call, refusal, text, tool_call,
};
use serde_json::{Value, json};

use crate::client::{Event, play, request, user};

const USAGE: Usage =
    Usage { input_tokens: 100, output_tokens: 7, cache_read_tokens: 60, cache_write_tokens: 10 };

fn deltas(events: &[Event], field: &str) -> Vec<String> {
    let chunks = events.iter().filter(|event| event.data != "[DONE]").map(Event::json);
    chunks
        .filter_map(|chunk| chunk["choices"][0]["delta"][field].as_str().map(str::to_owned))
        .filter(|text| !text.is_empty())
        .collect()
}

fn finish(events: &[Event]) -> Vec<Value> {
    let chunks = events.iter().filter(|event| event.data != "[DONE]").map(Event::json);
    chunks
        .map(|chunk| chunk["choices"][0]["finish_reason"].clone())
        .filter(|end| !end.is_null())
        .collect()
}

#[tokio::test]
async fn a_text_comes_whole_with_its_usage() {
    let (server, client) =
        play(Script::new().answer(text("Hello {assignment}").with_usage(USAGE))).await;
    let answer: Value =
        client.send(OpenAi, &request(json!([user("you")]))).await.json().await.unwrap();
    assert_eq!(answer["object"], "chat.completion");
    assert_eq!(answer["model"], "m");
    let choice = &answer["choices"][0];
    assert_eq!((&choice["index"], &choice["finish_reason"]), (&json!(0), &json!("stop")));
    assert_eq!(choice["message"]["content"], "Hello you");
    assert_eq!(choice["message"]["refusal"], Value::Null);
    assert_eq!(choice["message"].get("tool_calls"), None);
    let usage = &answer["usage"];
    assert_eq!(
        (&usage["prompt_tokens"], &usage["completion_tokens"], &usage["total_tokens"]),
        (&json!(100), &json!(7), &json!(107))
    );
    assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], 60);
    server.finish();
}

#[tokio::test]
async fn a_text_streams_in_chunks_and_ends_with_done() {
    let answer = text("Grüße an alle").chunks(4, Duration::ZERO).with_usage(USAGE);
    let (server, client) = play(Script::new().answer(answer)).await;
    let events = client.stream(OpenAi, request(json!([user("x")]))).await;
    assert_eq!(deltas(&events, "content"), ["Grüß", "e an", " all", "e"]);
    assert_eq!(events[0].json()["choices"][0]["delta"]["role"], "assistant");
    assert_eq!(events[0].json()["object"], "chat.completion.chunk");
    assert_eq!(finish(&events), ["stop"]);
    assert_eq!(events.last().unwrap().data, "[DONE]");
    assert!(events[0].json().get("usage").is_none(), "nobody asked for it");
    server.finish();
}

#[tokio::test]
async fn usage_streams_in_a_chunk_without_choices_if_asked_for() {
    let (server, client) = play(Script::new().answer(text("x").with_usage(USAGE))).await;
    let mut body = request(json!([user("x")]));
    body["stream_options"] = json!({"include_usage": true});
    let events = client.stream(OpenAi, body).await;
    let last = events[events.len() - 2].json();
    assert_eq!(last["choices"], json!([]));
    assert_eq!(last["usage"]["prompt_tokens_details"]["cached_tokens"], 60);
    assert_eq!(events[0].json()["usage"], Value::Null);
    server.finish();
}

#[tokio::test]
async fn tool_calls_come_with_text_ids_and_arguments() {
    let answer = text("Both.")
        .and_call("fetch", json!({"url": "{assignment}"}))
        .with_call_id("call_mine")
        .and_call("no_such_tool", json!({}));
    let (server, client) = play(Script::new().answer(answer)).await;
    let answer: Value =
        client.send(OpenAi, &request(json!([user("http://x")]))).await.json().await.unwrap();
    let message = &answer["choices"][0]["message"];
    assert_eq!(answer["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(message["content"], "Both.");
    let calls = message["tool_calls"].as_array().unwrap();
    assert_eq!(calls[0]["id"], "call_mine");
    assert_eq!(calls[0]["type"], "function");
    assert_eq!(
        calls[0]["function"],
        json!({"name": "fetch", "arguments": "{\"url\":\"http://x\"}"})
    );
    assert_eq!(calls[1]["function"]["name"], "no_such_tool");
    assert!(calls[1]["id"].as_str().unwrap().starts_with("call_"));
    server.finish();
}

#[tokio::test]
async fn tool_calls_stream_by_index_and_fragment() {
    let answer = tool_call("fetch", json!({"url": "http://example.com"}))
        .and(adjutant_script::ToolCall {
            name: "f".to_owned(),
            id: None,
            arguments: adjutant_script::CallArguments::Raw("{\"half".to_owned()),
            fields: serde_json::Map::new(),
        })
        .chunks(5, Duration::ZERO);
    let (server, client) = play(Script::new().answer(answer)).await;
    let events = client.stream(OpenAi, request(json!([user("x")]))).await;
    assert_eq!(events[0].json()["choices"][0]["delta"]["content"], Value::Null);
    let mut calls = vec![(String::new(), String::new(), String::new()); 2];
    for event in events.iter().filter(|event| event.data != "[DONE]") {
        for part in
            event.json()["choices"][0]["delta"]["tool_calls"].as_array().into_iter().flatten()
        {
            let call = &mut calls[usize::try_from(part["index"].as_u64().unwrap()).unwrap()];
            call.0 += part["id"].as_str().unwrap_or_default();
            call.1 += part["function"]["name"].as_str().unwrap_or_default();
            call.2 += part["function"]["arguments"].as_str().unwrap_or_default();
        }
    }
    assert_eq!(
        (calls[0].1.as_str(), calls[0].2.as_str()),
        ("fetch", "{\"url\":\"http://example.com\"}")
    );
    assert_eq!((calls[1].1.as_str(), calls[1].2.as_str()), ("f", "{\"half"));
    assert_ne!(calls[0].0, calls[1].0);
    assert_eq!(finish(&events), ["tool_calls"]);
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
        .answer(text("It goes on").with_stop("max_tokens"))
        .on(When::assignment("nothing"))
        .answer(empty());
    let (server, client) = play(script).await;
    let call = async |word: &str| -> Value {
        let answer: Value =
            client.send(OpenAi, &request(json!([user(word)]))).await.json().await.unwrap();
        answer["choices"][0].clone()
    };
    let raw = call("raw").await;
    assert_eq!(raw["message"]["tool_calls"][0]["function"]["arguments"], "{not json");
    let refused = call("refuse").await;
    assert_eq!(refused["message"]["refusal"], "I will not.");
    assert_eq!(
        (&refused["message"]["content"], &refused["finish_reason"]),
        (&Value::Null, &json!("stop"))
    );
    assert_eq!(call("long").await["finish_reason"], "length");
    let nothing = call("nothing").await;
    assert_eq!(
        (&nothing["message"]["content"], &nothing["finish_reason"]),
        (&json!(""), &json!("stop"))
    );

    let events = client.stream(OpenAi, request(json!([user("refuse")]))).await;
    assert_eq!(deltas(&events, "refusal"), ["I will not."]);
    let events = client.stream(OpenAi, request(json!([user("nothing")]))).await;
    assert!(deltas(&events, "content").is_empty());
    let events = client.stream(OpenAi, request(json!([user("long")]))).await;
    assert_eq!(finish(&events), ["length"]);
    server.finish();
}
