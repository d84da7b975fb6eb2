use std::time::Duration;

use super::server::{Server, Then, partial, streamed, whole};
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

struct TestModel {
    server: Server,
    model: Model,
    _key: tempfile::NamedTempFile,
}

/// A model with a key, whose server sends these answers.
async fn test_model(wire: Wire, answers: Vec<(String, Then)>) -> TestModel {
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
    TestModel { server, model, _key: key }
}

impl TestModel {
    async fn call(&self) -> Result<Reply, CallError> {
        self.model.call(&request_with("Hi"), &[tool("fetch")], |_| {}).await
    }
}

async fn failure(wire: Wire, answer: String, then: Then) -> CallError {
    let test_model = test_model(wire, vec![(answer, then)]).await;
    let error = test_model.call().await.unwrap_err();
    assert!(!format!("{error} {error:?}").contains(KEY), "{error}");
    error
}

#[tokio::test]
async fn a_call_has_the_headers_of_its_wire_and_its_answer_is_parsed() {
    for wire in WIRES {
        let test_model = test_model(wire, vec![(whole_hello(wire), Then::KeepAlive)]).await;
        let mut text = String::new();
        let reply = test_model
            .model
            .call(&request_with("Hi"), &[], |delta| text.push_str(delta))
            .await
            .unwrap();
        assert_eq!((reply.answer, text.as_str()), (Answer::of_text("Hello"), "Hello"));
        assert_eq!((reply.usage.input_tokens, reply.usage.output_tokens), (5, 2));

        let (head, body) = test_model.server.request(0);
        let (path, key) = match wire {
            Wire::Anthropic => ("/v1/messages", format!("x-api-key: {KEY}\r\n")),
            Wire::OpenAi => ("/v1/chat/completions", format!("authorization: Bearer {KEY}\r\n")),
        };
        assert!(head.starts_with(&format!("POST {path} HTTP/1.1\r\n")), "{head}");
        let agent = format!("user-agent: adjutant/{}\r\n", env!("CARGO_PKG_VERSION"));
        for header in
            [key.as_str(), "content-type: application/json\r\n", &agent, "x-team: night-owls\r\n"]
        {
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
        let test_model =
            test_model(wire, (0..3).map(|_| (whole_hello(wire), Then::KeepAlive)).collect()).await;
        test_model.call().await.unwrap();
        test_model.call().await.unwrap();
        std::fs::write(test_model._key.path(), "another-key").unwrap();
        test_model.call().await.unwrap();
        assert_eq!(*test_model.server.seen.connections.lock().unwrap(), 1);
        assert!(test_model.server.request(1).0.contains(KEY));
        assert!(test_model.server.request(2).0.contains("another-key"));
    }
}

#[tokio::test]
async fn without_a_key_none_is_sent() {
    let server = Server::start(vec![(whole_hello(Wire::OpenAi), Then::KeepAlive)]).await;
    let config = config(json!({"wire": "openai", "base_url": server.base}));
    let model = Model::new("main", &config, http_client().unwrap()).unwrap();
    model.call(&request_with("Hi"), &[], |_| {}).await.unwrap();
    assert!(!server.request(0).0.contains("authorization"));
}

#[tokio::test]
async fn an_answer_in_one_piece_is_parsed_too() {
    let body = json!({"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]})
        .to_string();
    let test_model =
        test_model(Wire::OpenAi, vec![(whole("200 OK", "", &body), Then::KeepAlive)]).await;
    assert_eq!(test_model.call().await.unwrap().answer, Answer::of_text("Hello"));
}

#[tokio::test]
async fn a_rate_limit_has_the_requested_pause() {
    let body = json!({"type": "error", "error": {"type": "rate_limit_error", "message": "Too many tokens"}});
    for status in ["429 Too Many Requests", "529 Overloaded"] {
        for wire in WIRES {
            let answer = whole(status, "retry-after: 3\r\n", &body.to_string());
            let error = failure(wire, answer, Then::KeepAlive).await;
            let details = format!("{} rate_limit_error: Too many tokens", &status[..3]);
            assert_eq!(error.to_string(), format!("Model API error: {details}"));
            assert_eq!(
                error.summary(),
                format!("{} rate_limit_error", &status[..3]),
                "the text that may be logged"
            );
            assert!(
                matches!(error, CallError::RateLimited { retry_after: Some(after), .. } if after == Duration::from_secs(3))
            );
        }
    }
}

#[tokio::test]
async fn the_status_decides_whether_an_error_is_transient() {
    for (status, is_transient) in [
        ("400 Bad Request", false),
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
        let error = failure(Wire::OpenAi, answer, Then::KeepAlive).await;
        let number = status[..3].parse().unwrap();
        let details = Details { status: Some(number), ..status.into() };
        let expected = if is_transient {
            CallError::Transient { retry_after: Some(Duration::from_secs(2)), details }
        } else {
            CallError::Permanent { details }
        };
        assert_eq!(error, expected);
    }
}

#[tokio::test]
async fn the_error_message_of_a_server_is_shortened_and_has_no_key() {
    let details_of = |body: Value| async move {
        let error = failure(
            Wire::OpenAi,
            whole("422 Unprocessable Entity", "", &body.to_string()),
            Then::KeepAlive,
        )
        .await;
        error.details().to_string()
    };
    let echo = format!("Incorrect key {KEY},\n\n ask {{night-owls}}");
    let body = json!({"error": {"message": echo, "type": "invalid_request_error", "code": "invalid_api_key"}});
    assert_eq!(details_of(body).await, "422 invalid_request_error: Incorrect key ***, ask {***}");
    assert_eq!(
        details_of(json!({"error": "no such model"})).await,
        "422 Unprocessable Entity: no such model"
    );
    assert_eq!(
        details_of(json!({"detail": "Not Found"})).await,
        "422 Unprocessable Entity: Not Found"
    );
    assert_eq!(
        details_of(json!({"message": "bad", "type": "BadRequestError"})).await,
        "422 BadRequestError: bad"
    );
    // Shortening must not cut the key before it is removed.
    let long = format!("{}{KEY}", "ä".repeat(260));
    let long = details_of(json!({"error": long})).await;
    assert!(long.chars().count() < 310 && !long.contains("sk-"), "{long}");
}

#[tokio::test]
async fn a_refused_key_and_an_empty_account_are_known_without_the_servers_words() {
    let of = |status: &'static str, body: Value| async move {
        failure(Wire::OpenAi, whole(status, "", &body.to_string()), Then::KeepAlive).await
    };
    for (status, kind) in [("401 Unauthorized", "invalid_api_key"), ("403 Forbidden", "denied")] {
        let body = json!({"error": {"message": "Your key sk-12...cd is wrong", "code": kind}});
        let error = of(status, body).await;
        assert!(matches!(error, CallError::Refused { .. }), "{error:?}");
        assert_eq!(error.details().to_string(), format!("{} {kind}", &status[..3]));
        assert_eq!(error.status(), status[..3].parse().ok());
    }
    for (status, error) in [
        ("402 Payment Required", json!("Send coins")),
        ("429 Too Many Requests", json!({"type": "insufficient_quota", "message": "Send coins"})),
        (
            "400 Bad Request",
            json!({"type": "invalid_request_error", "code": "billing_hard_limit_reached"}),
        ),
        (
            "400 Bad Request",
            json!({"type": "invalid_request_error", "message": "Your credit balance is too low to go on"}),
        ),
    ] {
        let error = of(status, json!({"error": error})).await;
        assert!(matches!(error, CallError::OutOfCredit { .. }), "{error:?}");
        let text = error.details().to_string();
        assert!(text.contains("waiting does not help") && !text.contains("coins"), "{text}");
    }
    let limited = of("429 Too Many Requests", json!({"error": {"message": "Slow down"}})).await;
    assert!(matches!(limited, CallError::RateLimited { .. }), "{limited:?}");
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let answer = whole("307 Temporary Redirect", "location: http://127.0.0.1:1/\r\n", "");
    assert!(matches!(
        failure(Wire::OpenAi, answer, Then::KeepAlive).await,
        CallError::Permanent { .. }
    ));
}

#[tokio::test]
async fn a_failed_connection_is_a_transient_error() {
    for wire in WIRES {
        let (first, last) = hello(wire);
        let unfinished =
            whole("200 OK", "", &first).replace("content-length: ", "content-length: 9");
        let half_an_error = whole("503 Service Unavailable", "", "{\"err")
            .replace("content-length: ", "content-length: 9");
        for answer in [
            String::new(),
            "HTTP/1.1 200".to_owned(),
            "HTTP/1.1 200 OK\r\n\r\n".to_owned(),
            partial(&first),
            partial(&(first.clone() + &last[..20])),
            streamed(&first),
            unfinished,
            half_an_error,
            "not HTTP at all\r\n\r\n".to_owned(),
        ] {
            let error = failure(wire, answer.clone(), Then::Close).await;
            assert!(matches!(error, CallError::Transient { .. }), "{answer:?}: {error:?}");
        }
    }
}

#[tokio::test]
async fn an_unreachable_server_is_a_transient_error() {
    let unused = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let config = config(
        json!({"wire": "openai", "base_url": format!("http://u:{KEY}@{unused}/v1?key={KEY}")}),
    );
    let model = Model::new("main", &config, http_client().unwrap()).unwrap();
    let error = model.call(&request_with("Hi"), &[], |_| {}).await.unwrap_err();
    assert!(matches!(error, CallError::Transient { .. }), "{error:?}");
    assert!(
        error.to_string().contains("refused") && !format!("{error:?}").contains(KEY),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_pause_before_or_within_an_answer_is_a_transient_error() {
    for wire in WIRES {
        for answer in [String::new(), partial(&hello(wire).0)] {
            let error = failure(wire, answer, Then::Hang).await;
            assert_eq!(error, CallError::transient("the server sent nothing for 300ms"));
        }
    }
}

#[tokio::test]
async fn a_complete_answer_does_not_wait_for_the_end_of_the_body() {
    for wire in WIRES {
        let (first, last) = hello(wire);
        let test_model = test_model(wire, vec![(partial(&(first + &last)), Then::Hang)]).await;
        assert_eq!(test_model.call().await.unwrap().answer, Answer::of_text("Hello"));
    }
}

#[tokio::test]
async fn a_call_that_takes_too_long_fails() {
    let server = Server::start(vec![(partial(&hello(Wire::OpenAi).0), Then::Hang)]).await;
    let config = config(json!({"wire": "openai", "base_url": server.base, "timeout_s": 0.2}));
    let model = Model::new("main", &config, http_client().unwrap()).unwrap();
    let error = model.call(&request_with("Hi"), &[], |_| {}).await.unwrap_err();
    assert_eq!(error, CallError::transient("no complete answer within 200ms"));
    server.client_disconnects_within_a_second().await;
}

#[tokio::test]
async fn a_call_that_is_dropped_closes_its_connection_at_once() {
    for wire in WIRES {
        for answer in [String::new(), partial(&hello(wire).0)] {
            let test_model = test_model(wire, vec![(answer, Then::Hang)]).await;
            tokio::select! {
                reply = test_model.call() => panic!("{reply:?}"),
                () = test_model.server.seen.answered.notified() => {}
            }
            test_model.server.client_disconnects_within_a_second().await;
        }
    }
}

#[tokio::test]
async fn a_request_that_is_too_long_is_known_by_the_words_of_its_server() {
    let error = |kind: &str, code: &str, message: &str| {
        json!({"type": "error", "error": {"type": kind, "code": code, "message": message}})
            .to_string()
    };
    let invalid = "invalid_request_error";
    for (status, body, expected) in [
        ("400 Bad Request", error(invalid, "context_length_exceeded", "Too much"), true),
        ("400 Bad Request", error(invalid, "", "prompt is too long: 9 tokens > 8 maximum"), true),
        ("400 Bad Request", error(invalid, "", "This model's maximum context length is 8"), true),
        ("400 Bad Request", error("exceed_context_size_error", "", "the request"), true),
        ("413 Payload Too Large", error("request_too_large", "", "Request too large"), true),
        ("400 Bad Request", error(invalid, "", "tool_use ids must be unique"), false),
        ("429 Too Many Requests", error("tokens", "", "Your context window is used up"), false),
        ("500 Internal Server Error", error("api_error", "", "context length"), false),
    ] {
        let answer = whole(status, "", &body);
        let error = failure(Wire::OpenAi, answer, Then::KeepAlive).await;
        assert_eq!(error.is_too_long(), expected, "{body}");
    }
}
