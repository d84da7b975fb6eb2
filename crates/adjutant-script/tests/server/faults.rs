//! Everything that can go wrong with an answer.

use std::time::{Duration, Instant};

use adjutant_script::{Fault, Script, ScriptServer, Wire, fault, text};
use serde_json::{Value, json};

use crate::client::{Client, WIRES, play, read_stream, request, user};

const WORDS: &str = "These are quite a few words, so that there is a middle to them, and an end.";

async fn failing(fault: Fault) -> (ScriptServer, Client) {
    play(Script::new().answer(text(WORDS).chunks(10, Duration::ZERO).with_fault(fault))).await
}

fn streaming() -> Value {
    let mut body = request(json!([user("x")]));
    body["stream"] = true.into();
    body
}

#[tokio::test]
async fn a_connection_dropped_before_the_headers_is_no_answer() {
    let (server, client) = failing(Fault::DropBeforeHeaders).await;
    for wire in WIRES {
        for body in [request(json!([user("x")])), streaming()] {
            let error = client.request(wire, &body).send().await.unwrap_err();
            assert!(error.is_request(), "{error:?}");
        }
    }
    assert_eq!(
        (server.request_counts().failed, server.request_counts().requests),
        (4, 4),
        "{:?}",
        server.request_counts()
    );
}

#[tokio::test]
async fn a_connection_dropped_half_way_leaves_half_an_answer() {
    let (server, client) = failing(Fault::DropHalfway).await;
    for wire in WIRES {
        let response = client.send(wire, &request(json!([user("x")]))).await;
        assert_eq!(response.status(), 200);
        assert!(response.content_length().unwrap() > 100, "the length of all of it");
        assert!(response.text().await.is_err());

        let (events, _, end) = read_stream(client.send(wire, &streaming()).await).await;
        assert!(end.is_err());
        assert!(events.len() >= 4, "what was sent before has arrived: {events:?}");
        assert!(events.iter().all(|event| event.data != "[DONE]" && event.name != "message_stop"));
    }
    assert_eq!(server.request_counts().failed, 4);
}

#[tokio::test]
async fn an_answer_that_ends_half_way_ends_well_for_http() {
    let (_server, client) = failing(Fault::EndHalfway).await;
    for wire in WIRES {
        let body = client.send(wire, &request(json!([user("x")]))).await.text().await.unwrap();
        assert!(serde_json::from_str::<Value>(&body).unwrap_err().is_eof());
        let (events, rest, end) = read_stream(client.send(wire, &streaming()).await).await;
        end.unwrap();
        assert_eq!(rest, "");
        assert!(events.len() >= 4);
        assert!(events.iter().all(|event| event.data != "[DONE]" && event.name != "message_stop"));
    }
}

#[tokio::test]
async fn half_of_a_json_value_is_all_that_comes() {
    let (_server, client) = failing(Fault::HalfJson).await;
    for wire in WIRES {
        let body = client.send(wire, &request(json!([user("x")]))).await.text().await.unwrap();
        assert!(serde_json::from_str::<Value>(&body).unwrap_err().is_eof());
        let (_, rest, end) = read_stream(client.send(wire, &streaming()).await).await;
        end.unwrap();
        assert!(rest.contains("data: {"), "{rest:?}");
    }
}

#[tokio::test]
async fn malformed_json_is_in_an_answer_that_is_otherwise_whole() {
    let (_server, client) = failing(Fault::MalformedJson).await;
    for wire in WIRES {
        let body = client.send(wire, &request(json!([user("x")]))).await.text().await.unwrap();
        assert!(serde_json::from_str::<Value>(&body).unwrap_err().is_syntax());
        let (events, _, end) = read_stream(client.send(wire, &streaming()).await).await;
        end.unwrap();
        let broken =
            events.iter().filter(|event| serde_json::from_str::<Value>(&event.data).is_err());
        assert_eq!(broken.filter(|event| event.data != "[DONE]").count(), 1);
        let last = events.last().unwrap();
        assert!(last.data == "[DONE]" || last.name == "message_stop");
    }
}

#[tokio::test]
async fn an_error_in_the_middle_of_a_stream_is_its_last_event() {
    let answer = text(WORDS).with_fault(Fault::ErrorHalfway);
    let (_server, client) = play(Script::new().answer(answer)).await;
    for wire in WIRES {
        let (events, _, end) = read_stream(client.send(wire, &streaming()).await).await;
        end.unwrap();
        let last = events.last().unwrap();
        let error = last.json();
        match wire {
            Wire::OpenAi => {
                assert_eq!(
                    (last.name.as_str(), &error["error"]["type"]),
                    ("", &json!("server_error"))
                )
            }
            Wire::Anthropic => {
                assert_eq!((last.name.as_str(), &error["type"]), ("error", &json!("error")));
                assert_eq!(error["error"]["type"], "overloaded_error");
            }
        }
        let response = client.send(wire, &request(json!([user("x")]))).await;
        assert!(response.status().is_server_error(), "without a stream there is no middle");
    }
}

#[tokio::test]
async fn an_answer_that_hangs_does_so_until_the_client_goes_away() {
    let (server, client) = failing(Fault::HangBeforeHeaders).await;
    for (wire, seen) in WIRES.into_iter().zip(1..) {
        let body = streaming();
        let request = client.request(wire, &body).send();
        tokio::select! {
            _ = request => panic!("it answered"),
            () = server.wait_for_requests(seen) => {}
        }
        server.wait_until("it saw the client go", |tally| tally.hung_up == seen).await;
    }
    assert!(server.requests().iter().all(adjutant_script::RecordedRequest::hung_up));

    let (server, client) = play(Script::new().answer(fault(Fault::HangHalfway))).await;
    for (wire, seen) in WIRES.into_iter().zip(1..) {
        let mut response = client.send(wire, &streaming()).await;
        assert!(response.chunk().await.unwrap().is_some());
        assert_eq!(server.request_counts().hung_up, seen - 1);
        drop(response);
        server.wait_until("it saw the client go", |tally| tally.hung_up == seen).await;
    }
}

#[tokio::test]
async fn delays_come_before_the_first_byte_in_the_middle_and_between_chunks() {
    let delay = Duration::from_millis(30);
    let script = Script::new()
        .then(text("x").delay(delay))
        .then(text("x").pause(delay))
        .then(text("abc").chunks(1, delay));
    let (server, client) = play(script).await;
    let mut messages = vec![user("x")];
    for (turn, least) in [(1, delay), (2, delay), (3, delay * 5)] {
        for wire in WIRES {
            let begun = Instant::now();
            client.stream(wire, request(messages.clone().into())).await;
            assert!(begun.elapsed() >= least, "turn {turn} took {:?}", begun.elapsed());
            let begun = Instant::now();
            client.send(wire, &request(messages.clone().into())).await.bytes().await.unwrap();
            assert!(begun.elapsed() >= delay, "turn {turn} took {:?}", begun.elapsed());
        }
        messages.extend([crate::client::assistant("x"), user("go on")]);
    }
    server.finish();
}
