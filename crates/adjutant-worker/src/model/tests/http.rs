use std::time::Duration;

use super::server::{Server, Then, begun, streamed, whole};
use super::*;

const WIRES: [Wire; 2] = [Wire::Anthropic, Wire::OpenAi];

/// "Hello" as a stream, in two parts: the second has the end.
fn hello(wire: Wire) -> (String, String) {
    match wire {
        Wire::Anthropic => (
            "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":5}}}\n\n\
             data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n\
             data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hello\"}}\n\n"
                .to_owned(),
            "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":2}}\n\n\
             data: {\"type\":\"message_stop\"}\n\n"
                .to_owned(),
        ),
        Wire::OpenAi => (
            "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hello\"}}]}\n\n".to_owned(),
            "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n\
             data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2}}\n\n\
             data: [DONE]\n\n"
                .to_owned(),
        ),
    }
}

fn whole_hello(wire: Wire) -> String {
    let (first, last) = hello(wire);
    streamed(&(first + &last))
}

struct Calling {
    server: Server,
    model: Model,
    _key: tempfile::NamedTempFile,
}

/// A model with a key, whose server answers so.
async fn calling(wire: Wire, answers: Vec<(String, Then)>) -> Calling {
    let server = Server::start(answers).await;
    let key = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(key.path(), format!("{KEY}\n")).unwrap();
    let base = match wire {
        Wire::Anthropic => server.base.clone(),
        Wire::OpenAi => format!("{}/v1/", server.base),
    };
    // A client for each: its connections belong to the test's runtime.
    let config = config(json!({
        "wire": wire.as_str(), "base_url": base, "api_key_file": key.path(), "idle_timeout_s": 0.3, "timeout_s": 5,
        "headers": {"x-team": "night-owls"},
    }));
    let model = Model::new("main", &config, http_client().unwrap()).unwrap();
    Calling { server, model, _key: key }
}

impl Calling {
    async fn call(&self) -> Result<Reply, CallError> {
        self.model.call(&asking("Hi"), &[tool("fetch")], |_| {}).await
    }
}

async fn failure(wire: Wire, answer: String, then: Then) -> CallError {
    let calling = calling(wire, vec![(answer, then)]).await;
    let error = calling.call().await.unwrap_err();
    assert!(!format!("{error} {error:?}").contains(KEY), "{error}");
    error
}

#[tokio::test]
async fn a_call_is_sent_as_the_wire_wants_it_and_its_answer_read() {
    for wire in WIRES {
        let calling = calling(wire, vec![(whole_hello(wire), Then::GoOn)]).await;
        let mut text = String::new();
        let reply = calling.model.call(&asking("Hi"), &[], |delta| text.push_str(delta)).await.unwrap();
        assert_eq!((reply.answer, text.as_str()), (Answer::of_text("Hello"), "Hello"));
        assert_eq!((reply.usage.input_tokens, reply.usage.output_tokens), (5, 2));

        let (head, body) = calling.server.request(0);
        let (path, key) = match wire {
            Wire::Anthropic => ("/v1/messages", format!("x-api-key: {KEY}\r\n")),
            Wire::OpenAi => ("/v1/chat/completions", format!("authorization: Bearer {KEY}\r\n")),
        };
        assert!(head.starts_with(&format!("POST {path} HTTP/1.1\r\n")), "{head}");
        let agent = format!("user-agent: adjutant/{}\r\n", env!("CARGO_PKG_VERSION"));
        for header in [key.as_str(), "content-type: application/json\r\n", &agent, "x-team: night-owls\r\n"] {
            assert!(head.contains(header), "{header} in {head}");
        }
        assert_eq!(head.contains("anthropic-version: 2023-06-01\r\n"), wire == Wire::Anthropic);
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["model"], "main");
    }
}

#[tokio::test]
async fn a_connection_is_used_again_and_a_key_file_that_changed_is_read_again() {
    for wire in WIRES {
        let calling = calling(wire, (0..3).map(|_| (whole_hello(wire), Then::GoOn)).collect()).await;
        calling.call().await.unwrap();
        calling.call().await.unwrap();
        std::fs::write(calling._key.path(), "another-key").unwrap();
        calling.call().await.unwrap();
        assert_eq!(*calling.server.seen.connections.lock().unwrap(), 1);
        assert!(calling.server.request(1).0.contains(KEY));
        assert!(calling.server.request(2).0.contains("another-key"));
    }
}

#[tokio::test]
async fn without_a_key_none_is_sent() {
    let server = Server::start(vec![(whole_hello(Wire::OpenAi), Then::GoOn)]).await;
    let config = config(json!({"wire": "openai", "base_url": server.base}));
    let model = Model::new("main", &config, http_client().unwrap()).unwrap();
    model.call(&asking("Hi"), &[], |_| {}).await.unwrap();
    assert!(!server.request(0).0.contains("authorization"));
}

#[tokio::test]
async fn an_answer_in_one_piece_is_read_too() {
    let body = json!({"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]}).to_string();
    let calling = calling(Wire::OpenAi, vec![(whole("200 OK", "", &body), Then::GoOn)]).await;
    assert_eq!(calling.call().await.unwrap().answer, Answer::of_text("Hello"));
}

#[tokio::test]
async fn a_rate_limit_says_for_how_long() {
    let body = json!({"type": "error", "error": {"type": "rate_limit_error", "message": "Too many tokens"}});
    for status in ["429 Too Many Requests", "529 Overloaded"] {
        for wire in WIRES {
            let answer = whole(status, "retry-after: 3\r\n", &body.to_string());
            let error = failure(wire, answer, Then::GoOn).await;
            let details = format!("{} rate_limit_error: Too many tokens", &status[..3]);
            assert_eq!(error.to_string(), format!("Model API error: {details}"));
            assert_eq!(error.outline(), format!("{} rate_limit_error", &status[..3]), "what a log may have");
            assert!(
                matches!(error, CallError::RateLimited { retry_after: Some(after), .. } if after == Duration::from_secs(3))
            );
        }
    }
}

#[tokio::test]
async fn what_may_pass_and_what_will_not_are_told_apart_by_the_status() {
    for (status, passes) in [
        ("400 Bad Request", false),
        ("401 Unauthorized", false),
        ("404 Not Found", false),
        ("408 Request Timeout", true),
        ("409 Conflict", true),
        ("413 Payload Too Large", false),
        ("422 Unprocessable Entity", false),
        ("500 Internal Server Error", true),
        ("502 Bad Gateway", true),
        ("503 Service Unavailable", true),
        ("504 Gateway Timeout", true),
    ] {
        let answer = whole(status, "retry-after: 2\r\n", "<html>Try later</html>");
        let error = failure(Wire::OpenAi, answer, Then::GoOn).await;
        let details = status.into();
        let expected = if passes {
            CallError::Passing { retry_after: Some(Duration::from_secs(2)), details }
        } else {
            CallError::Final { details }
        };
        assert_eq!(error, expected);
    }
}

#[tokio::test]
async fn what_a_server_says_of_an_error_is_shown_short_and_without_the_key() {
    let said = |body: Value| async move {
        let error = failure(Wire::OpenAi, whole("401 Unauthorized", "", &body.to_string()), Then::GoOn).await;
        error.details().to_string()
    };
    let echo = format!("Incorrect key {KEY},\n\n ask {{night-owls}}");
    let body =
        json!({"error": {"message": echo, "type": "invalid_request_error", "code": "invalid_api_key"}});
    assert_eq!(said(body).await, "401 invalid_request_error: Incorrect key ***, ask {***}");
    assert_eq!(said(json!({"error": "no such model"})).await, "401 Unauthorized: no such model");
    assert_eq!(said(json!({"detail": "Not Found"})).await, "401 Unauthorized: Not Found");
    assert_eq!(said(json!({"message": "bad", "type": "BadRequestError"})).await, "401 BadRequestError: bad");
    // Cut in the middle of the key, it would be there in part.
    let long = format!("{}{KEY}", "ä".repeat(260));
    let long = said(json!({"error": long})).await;
    assert!(long.chars().count() < 310 && !long.contains("sk-"), "{long}");
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let answer = whole("307 Temporary Redirect", "location: http://127.0.0.1:1/\r\n", "");
    assert!(matches!(failure(Wire::OpenAi, answer, Then::GoOn).await, CallError::Final { .. }));
}

#[tokio::test]
async fn a_connection_that_fails_anywhere_is_a_failure_that_may_pass() {
    for wire in WIRES {
        let (first, last) = hello(wire);
        let unfinished = whole("200 OK", "", &first).replace("content-length: ", "content-length: 9");
        let half_an_error =
            whole("503 Service Unavailable", "", "{\"err").replace("content-length: ", "content-length: 9");
        for answer in [
            String::new(),
            "HTTP/1.1 200".to_owned(),
            "HTTP/1.1 200 OK\r\n\r\n".to_owned(),
            begun(&first),
            begun(&(first.clone() + &last[..20])),
            streamed(&first),
            unfinished,
            half_an_error,
            "not HTTP at all\r\n\r\n".to_owned(),
        ] {
            let error = failure(wire, answer.clone(), Then::Close).await;
            assert!(matches!(error, CallError::Passing { .. }), "{answer:?}: {error:?}");
        }
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_a_failure_that_may_pass() {
    let unused = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let config =
        config(json!({"wire": "openai", "base_url": format!("http://u:{KEY}@{unused}/v1?key={KEY}")}));
    let model = Model::new("main", &config, http_client().unwrap()).unwrap();
    let error = model.call(&asking("Hi"), &[], |_| {}).await.unwrap_err();
    assert!(matches!(error, CallError::Passing { .. }), "{error:?}");
    assert!(error.to_string().contains("refused") && !format!("{error:?}").contains(KEY), "{error:?}");
}

#[tokio::test]
async fn silence_before_or_within_an_answer_is_a_failure_that_may_pass() {
    for wire in WIRES {
        for answer in [String::new(), begun(&hello(wire).0)] {
            let error = failure(wire, answer, Then::Hang).await;
            assert_eq!(error, CallError::passing("nothing came for 300ms"));
        }
    }
}

#[tokio::test]
async fn an_answer_that_is_complete_is_not_waited_for() {
    for wire in WIRES {
        let (first, last) = hello(wire);
        let calling = calling(wire, vec![(begun(&(first + &last)), Then::Hang)]).await;
        assert_eq!(calling.call().await.unwrap().answer, Answer::of_text("Hello"));
    }
}

#[tokio::test]
async fn a_call_that_takes_too_long_has_failed() {
    let server = Server::start(vec![(begun(&hello(Wire::OpenAi).0), Then::Hang)]).await;
    let config = config(json!({"wire": "openai", "base_url": server.base, "timeout_s": 0.2}));
    let model = Model::new("main", &config, http_client().unwrap()).unwrap();
    let error = model.call(&asking("Hi"), &[], |_| {}).await.unwrap_err();
    assert_eq!(error, CallError::passing("no whole answer within 200ms"));
    server.client_goes_within_a_second().await;
}

#[tokio::test]
async fn a_call_that_is_dropped_closes_its_connection_at_once() {
    for wire in WIRES {
        for answer in [String::new(), begun(&hello(wire).0)] {
            let calling = calling(wire, vec![(answer, Then::Hang)]).await;
            tokio::select! {
                reply = calling.call() => panic!("{reply:?}"),
                () = calling.server.seen.said.notified() => {}
            }
            calling.server.client_goes_within_a_second().await;
        }
    }
}
