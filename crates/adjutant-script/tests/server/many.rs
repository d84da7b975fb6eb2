//! Many at once.

use std::time::{Duration, Instant};

use adjutant_script::{Keep, Options, Script, ScriptServer, Wire, text};
use futures::future::join_all;
use serde_json::json;

use crate::client::{Client, WIRES, assistant, request, user};

#[tokio::test]
async fn two_hundred_conversations_at_once_each_get_their_own_answers() {
    let delay = Duration::from_millis(500);
    let script = Script::new()
        .then(text("first of {assignment}").delay(delay))
        .then(text("second of {assignment}, after {last}").chunks(5, Duration::from_millis(1)));
    let options = Options { keep: Keep::Outlines, ..Options::default() };
    let server = ScriptServer::start_with(script, options).await.unwrap();
    let client = Client::of(&server);
    let begun = Instant::now();
    let loops = (0..200).map(|n| {
        let client = &client;
        async move {
            let (wire, name) = (WIRES[n % 2], format!("loop {n}."));
            assert_eq!(client.say(wire, json!([user(&name)])).await, format!("first of {name}"));
            let messages = json!([user(&name), assistant("x"), user(&format!("word {n}"))]);
            let events = client.stream(wire, request(messages)).await;
            let said: String = events
                .iter()
                .filter(|event| event.data != "[DONE]")
                .filter_map(|event| {
                    let json = event.json();
                    let text = match wire {
                        Wire::OpenAi => &json["choices"][0]["delta"]["content"],
                        Wire::Anthropic => &json["delta"]["text"],
                    };
                    text.as_str().map(str::to_owned)
                })
                .collect();
            assert_eq!(said, format!("second of {name}, after word {n}"));
        }
    });
    join_all(loops).await;
    assert!(begun.elapsed() < delay * 40, "they wait side by side: {:?}", begun.elapsed());
    assert_eq!((server.request_counts().requests, server.request_counts().answered), (400, 400));
    assert_eq!(server.turns().len(), 400);
    server.assert_nothing_answered_twice();
    server.finish();
}
