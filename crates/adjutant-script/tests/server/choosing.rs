//! Who gets which answer.

use adjutant_script::{Script, When, Wire, status, text};
use serde_json::{Value, json};

use crate::client::{Client, WIRES, assistant, play, request, user};

async fn status_of(client: &Client, messages: Value) -> u16 {
    client.send(Wire::OpenAi, &request(messages)).await.status().as_u16()
}

#[tokio::test]
async fn the_turn_is_the_number_of_answers_in_the_request_so_a_resumed_loop_finds_its_place() {
    let script = Script::new().on(When::assignment("count")).then("one").then("two").then("three");
    let (server, client) = play(script).await;
    let second = json!([user("count"), assistant("one"), user("go on")]);
    for wire in WIRES {
        assert_eq!(client.say(wire, second.clone()).await, "two");
        assert_eq!(client.say(wire, json!([user("count")])).await, "one");
        assert_eq!(client.say(wire, second.clone()).await, "two");
    }
    server.finish();
}

#[tokio::test]
async fn the_first_rule_that_fits_answers() {
    let script = Script::new()
        .on(When::last("magic").and(When::assignment("a")))
        .answer("by the last words")
        .on(When { turn: Some(2), ..When::any() })
        .answer("by the turn")
        .on(When::system("cook"))
        .answer("by the system prompt")
        .on(When::assignment("bread"))
        .answer("by the assignment")
        .on(When::model("m"))
        .answer("by the model")
        .otherwise(text("by default"));
    let (server, client) = play(script).await;
    for wire in WIRES {
        assert_eq!(
            client.say(wire, json!([user("a"), assistant("x"), user("magic")])).await,
            "by the last words"
        );
        assert_eq!(
            client.say(wire, json!([user("b"), assistant("x"), user("magic")])).await,
            "by the turn"
        );
        assert_eq!(client.say(wire, json!([user("bake bread")])).await, "by the assignment");
        assert_eq!(client.say(wire, json!([user("b")])).await, "by the model");
        let other = json!({"model": "other", "max_tokens": 9, "messages": [user("b")]});
        assert!(client.send(wire, &other).await.text().await.unwrap().contains("by default"));
    }
    let cook = json!([{"role": "system", "content": "You are a cook."}, user("x")]);
    assert_eq!(client.say(Wire::OpenAi, cook).await, "by the system prompt");
    let mut cook = request(json!([user("x")]));
    cook["system"] = json!([{"type": "text", "text": "You are a cook."}]);
    assert!(
        client
            .send(Wire::Anthropic, &cook)
            .await
            .text()
            .await
            .unwrap()
            .contains("by the system prompt")
    );
    server.finish();
}

#[tokio::test]
async fn a_list_is_for_the_first_and_the_second_time_of_each_conversation() {
    let script = Script::new().then([status(429), status(500), text("at last")]);
    let (server, client) = play(script).await;
    for assignment in ["one", "two"] {
        for wanted in [429, 500, 200, 200] {
            assert_eq!(status_of(&client, json!([user(assignment)])).await, wanted);
        }
    }
    server.finish();
}

#[tokio::test]
async fn a_rule_that_is_used_up_leaves_the_rest_to_the_others() {
    let script = Script::new()
        .on(When::any())
        .answer(status(529))
        .times(2)
        .on(When::assignment("x"))
        .answer("ok");
    let (server, client) = play(script).await;
    for wanted in [529, 529, 200, 200] {
        assert_eq!(status_of(&client, json!([user("x")])).await, wanted);
    }
    assert_eq!(status_of(&client, json!([user("y")])).await, 400);
    let unexpected = server.unexpected();
    let why = format!("{:?}", unexpected[0].end);
    assert!(why.contains("used up after 2 times") && why.contains("assignments with"), "{why}");
}

#[tokio::test]
async fn ids_of_calls_are_the_same_each_time_a_turn_is_asked_for_and_differ_between_turns() {
    let call = || adjutant_script::tool_call("f", json!({}));
    let (server, client) = play(Script::new().then(call()).then(call())).await;
    let id = async |messages: Value| {
        let answer: Value =
            client.send(Wire::OpenAi, &request(messages)).await.json().await.unwrap();
        answer["choices"][0]["message"]["tool_calls"][0]["id"].as_str().unwrap().to_owned()
    };
    let first = id(json!([user("x")])).await;
    assert_eq!(first, id(json!([user("x")])).await);
    assert_ne!(first, id(json!([user("x"), assistant("y"), user("z")])).await);
    assert_ne!(first, id(json!([user("other")])).await);
    server.finish();
}
