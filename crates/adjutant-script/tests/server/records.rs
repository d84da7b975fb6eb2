//! What the server remembers, and what fails a test.

use adjutant_script::{
    End, Keep, Options, Script, ScriptServer, When, Wire, status, text, tool_call,
};
use serde_json::{Value, json};

use crate::client::{Client, WIRES, assistant, play, request, user};

#[tokio::test]
async fn what_the_script_does_not_answer_is_a_400_and_fails_the_test() {
    let (server, client) = play(Script::new().on(When::assignment("known")).then("yes")).await;
    assert_eq!(client.say(Wire::OpenAi, json!([user("known")])).await, "yes");
    server.assert_no_unexpected();
    for wire in WIRES {
        let response =
            client.send(wire, &request(json!([user("known"), assistant("yes"), user("?")]))).await;
        assert_eq!(response.status(), 400);
        let said = response.text().await.unwrap();
        assert!(said.contains("no answer for turn 2") && !said.contains("known"), "{said}");
    }
    assert_eq!(client.get("/script/unexpected").await.as_array().unwrap().len(), 2);
    let panic =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| server.finish())).unwrap_err();
    let said = panic.downcast_ref::<String>().unwrap();
    assert!(said.contains("2 unexpected") && said.contains("has no answer for turn 2"), "{said}");
}

#[tokio::test]
async fn what_a_vendor_would_not_take_is_unexpected_too() {
    let (server, client) = play(Script::new().answer("yes")).await;
    let call = json!({"role": "assistant", "content": null,
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]});
    assert_eq!(client.send(Wire::OpenAi, &request(json!([user("x"), call]))).await.status(), 400);
    let no_limit = json!({"model": "m", "messages": [user("x")]});
    assert_eq!(client.send(Wire::Anthropic, &no_limit).await.status(), 400);
    let http = reqwest::Client::new();
    let messages = format!("{}/v1/messages", server.url());
    let answer = http.post(&messages).json(&request(json!([user("x")]))).send().await.unwrap();
    assert_eq!(answer.status(), 400, "no anthropic-version");
    assert_eq!(http.post(&messages).body("{").send().await.unwrap().status(), 400);
    assert_eq!(http.get(&messages).send().await.unwrap().status(), 404);
    assert_eq!(http.post(format!("{}/v2/x", server.url())).send().await.unwrap().status(), 404);
    assert_eq!(server.unexpected().len(), 6);
}

/// The assistant's message of an answer, and the message that answers its call.
fn call_and_result(wire: Wire, answer: &Value) -> (Value, Value) {
    match wire {
        Wire::OpenAi => {
            let message = answer["choices"][0]["message"].clone();
            let id = message["tool_calls"][0]["id"].clone();
            (message, json!({"role": "tool", "tool_call_id": id, "content": "done"}))
        }
        Wire::Anthropic => {
            let content = answer["content"].clone();
            let uses = content.as_array().unwrap().iter();
            let mut id = uses.filter(|block| block["type"] == "tool_use").map(|block| &block["id"]);
            let result =
                json!({"type": "tool_result", "tool_use_id": id.next_back(), "content": "done"});
            (
                json!({"role": "assistant", "content": content}),
                json!({"role": "user", "content": [result]}),
            )
        }
    }
}

#[tokio::test]
async fn a_call_without_its_reasoning_or_signature_is_refused_as_the_vendors_refuse_it() {
    let thinks = tool_call("f", json!({}))
        .with_thinking("Hm.")
        .with_field("reasoning_content", json!("Hm."))
        .with_call_field("extra_content", json!({"google": {"thought_signature": "c2ln"}}));
    let (_server, client) = play(Script::new().on(When::any()).then(thinks).then("So.")).await;
    // Where it is, and what the server says about a message that has another one, or none.
    let kept: [(Wire, &[(&str, &str)]); 2] = [
        (
            Wire::OpenAi,
            &[
                ("/reasoning_content", "reasoning_content must be passed back"),
                ("/tool_calls/0/extra_content", "extra_content is missing or was changed"),
            ],
        ),
        (
            Wire::Anthropic,
            &[
                ("/content/0/thinking", "must begin with thinking"),
                ("/content/0/signature", "must begin with thinking"),
            ],
        ),
    ];
    for (wire, fields) in kept {
        let first = client.send(wire, &request(json!([user("think")]))).await;
        let (call, result) = call_and_result(wire, &first.json().await.unwrap());
        assert_eq!(client.say(wire, json!([user("think"), call, result])).await, "So.");
        for (field, expected) in fields {
            for other in [Value::Null, json!("changed")] {
                let mut call = call.clone();
                *call.pointer_mut(field).unwrap() = other;
                let messages = json!([user("think"), call, result]);
                let refused = client.send(wire, &request(messages)).await;
                assert_eq!(refused.status(), 400, "{field}");
                let said = refused.text().await.unwrap();
                assert!(said.contains(expected), "{said}");
            }
        }
    }
}

#[tokio::test]
async fn requests_are_recorded_with_their_keys_masked() {
    let (server, client) = play(Script::new().on(When::any()).named("all").answer("yes")).await;
    for wire in WIRES {
        client.stream(wire, request(json!([user("find it")]))).await;
    }
    let requests = server.requests();
    for (request, wire) in requests.iter().zip(WIRES) {
        let parsed = request.parsed.as_ref().unwrap();
        assert_eq!(
            (parsed.wire, parsed.turn, parsed.streams, parsed.model.as_str()),
            (wire, 1, true, "m")
        );
        assert_eq!((request.method.as_str(), request.assignment()), ("POST", "find it"));
        assert_eq!(request.body.as_ref().unwrap()["messages"][0]["content"], "find it");
        assert_eq!((&request.end, request.rule.as_deref()), (&Some(End::Answered), Some("all")));
        assert!(request.has_key("test-key") && !request.has_key("other"));
        assert!(!format!("{request:?}").contains("test-key"));
    }
    assert_eq!(requests[0].header("authorization"), Some("Bearer ***"));
    assert_eq!(requests[1].header("x-api-key"), Some("***"));
    assert!(requests[0].arrived <= requests[1].arrived);

    let seen = client.get("/script/requests").await;
    assert_eq!((&seen[0]["wire"], &seen[1]["end"]), (&json!("openai"), &json!("answered")));
    assert_eq!(seen[0]["body"]["messages"][0]["content"], "find it");
    assert!(!seen.to_string().contains("test-key"));
    assert_eq!(server.requests_of("find").len(), 2);
    assert_eq!(server.requests_of("other").len(), 0);
    server.finish();
}

#[tokio::test]
async fn turns_are_counted_by_conversation_and_only_whole_answers_count_as_answered() {
    let script = Script::new().then([status(429), text("one")]).then("two");
    let (server, client) = play(script).await;
    for _ in 0..2 {
        client.say(Wire::OpenAi, json!([user("a")])).await;
    }
    client.say(Wire::OpenAi, json!([user("a"), assistant("one"), user("?")])).await;
    client.say(Wire::OpenAi, json!([user("b")])).await;
    let turns = server.turns();
    let counts: Vec<(&str, u32, usize, usize)> = turns
        .iter()
        .map(|turn| {
            (turn.conversation.assignment.as_str(), turn.turn, turn.requested, turn.answered)
        })
        .collect();
    assert_eq!(counts, [("a", 1, 2, 1), ("a", 2, 1, 1), ("b", 1, 1, 0)]);
    server.assert_nothing_answered_twice();
    let seen = client.get("/script/counts").await;
    assert_eq!(
        seen["tally"],
        json!({"requests": 4, "answered": 2, "failed": 2, "hung_up": 0, "unexpected": 0})
    );
    assert_eq!(
        (&seen["turns"][0]["requested"], &seen["turns"][0]["answered"]),
        (&json!(2), &json!(1))
    );

    client.say(Wire::OpenAi, json!([user("a")])).await;
    assert_eq!(server.answered_twice().len(), 1);
}

#[tokio::test]
async fn another_question_in_the_same_turn_is_not_the_same_answer_again() {
    let (server, client) = play(Script::new().answer("yes").once()).await;
    assert_eq!(client.say(Wire::OpenAi, json!([user("a")])).await, "yes");
    assert_eq!(client.say(Wire::OpenAi, json!([user("a"), user("Answer, please.")])).await, "yes");
    server.assert_nothing_answered_twice();
    server.assert_no_unexpected();
    client.say(Wire::OpenAi, json!([user("a")])).await;
    assert_eq!(server.unexpected().len(), 1, "the script answers once");
}

#[tokio::test]
async fn outlines_have_neither_headers_nor_bodies() {
    let options = Options { keep: Keep::Outlines, ..Options::default() };
    let server = ScriptServer::start_with(Script::new().answer("yes"), options).await.unwrap();
    Client::of(&server).say(Wire::OpenAi, json!([user("a")])).await;
    let request = &server.requests()[0];
    assert!(request.body.is_none() && request.headers.is_empty() && !request.has_any_key());
    assert_eq!(request.assignment(), "a");
    server.finish();
}

#[tokio::test]
async fn a_dropped_server_closes_its_connections_and_frees_its_address() {
    let (server, client) =
        play(Script::new().answer(adjutant_script::fault(adjutant_script::Fault::HangHalfway)))
            .await;
    let address = server.address();
    let mut body = request(json!([user("x")]));
    body["stream"] = true.into();
    let mut response = client.send(Wire::OpenAi, &body).await;
    drop(server);
    while let Ok(Some(_)) = response.chunk().await {}
    let options = Options { listen: address, ..Options::default() };
    let server = ScriptServer::start_with(Script::new().answer("again"), options).await.unwrap();
    assert_eq!(client.say(Wire::OpenAi, json!([user("x")])).await, "again");
    server.finish();
}
