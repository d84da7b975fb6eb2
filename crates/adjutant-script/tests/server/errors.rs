//! Errors that the script wants.

use std::time::{Duration, SystemTime};

use adjutant_script::{Script, Wire, status};
use serde_json::{Value, json};

use crate::client::{WIRES, play, request, user};

#[tokio::test]
async fn an_error_has_the_vendors_form_streaming_or_not() {
    for (code, openai, anthropic) in [
        (401, "invalid_request_error", "authentication_error"),
        (429, "requests", "rate_limit_error"),
        (500, "server_error", "api_error"),
        (503, "server_error", "api_error"),
        (529, "server_error", "overloaded_error"),
    ] {
        let (server, client) = play(Script::new().answer(status(code))).await;
        for (wire, stream) in WIRES.into_iter().flat_map(|wire| [(wire, false), (wire, true)]) {
            let mut body = request(json!([user("x")]));
            body["stream"] = stream.into();
            let response = client.send(wire, &body).await;
            assert_eq!(response.status(), code);
            let error: Value = response.json().await.unwrap();
            match wire {
                Wire::OpenAi => assert_eq!(error["error"]["type"], openai),
                Wire::Anthropic => {
                    assert_eq!(
                        (&error["type"], &error["error"]["type"]),
                        (&json!("error"), &json!(anthropic))
                    );
                }
            }
            assert!(!error["error"]["message"].as_str().unwrap().is_empty());
        }
        assert_eq!((server.request_counts().failed, server.request_counts().answered), (4, 0));
        server.finish();
    }
}

#[tokio::test]
async fn an_error_may_say_what_it_likes() {
    let script = Script::new()
        .then(status(400).with_error("billing_error", "No money.").with_header("x-why", "because"))
        .then(status(502).with_body("<html>Bad gateway</html>"));
    let (server, client) = play(script).await;
    for wire in WIRES {
        let response = client.send(wire, &request(json!([user("x")]))).await;
        assert_eq!(response.headers()["x-why"], "because");
        let error: Value = response.json().await.unwrap();
        assert_eq!(error["error"]["type"], "billing_error");
        assert_eq!(error["error"]["message"], "No money.");
        let turn_2 = request(json!([user("x"), {"role": "assistant", "content": "y"}, user("z")]));
        let response = client.send(wire, &turn_2).await;
        assert_eq!(response.text().await.unwrap(), "<html>Bad gateway</html>");
    }
    server.finish();
}

#[tokio::test]
async fn times_to_come_back_are_seconds_dates_and_resets() {
    let script = Script::new().answer([
        status(429).retry_after(3.0),
        status(429).retry_after_date(3.0),
        status(429).reset_after(3.0),
    ]);
    let (server, client) = play(script).await;
    let begun = SystemTime::now();
    for wire in WIRES {
        let body = request(json!([user(&format!("on {wire:?}"))]));
        let headers = client.send(wire, &body).await.headers().clone();
        assert_eq!(headers["retry-after"], "3");

        let headers = client.send(wire, &body).await.headers().clone();
        let date =
            chrono::DateTime::parse_from_rfc2822(headers["retry-after"].to_str().unwrap()).unwrap();
        assert!(headers["retry-after"].to_str().unwrap().ends_with(" GMT"));
        in_about_three_seconds(begun, date.into());

        let headers = client.send(wire, &body).await.headers().clone();
        match wire {
            Wire::OpenAi => assert_eq!(headers["x-ratelimit-reset-requests"], "3s"),
            Wire::Anthropic => {
                let reset = headers["anthropic-ratelimit-requests-reset"].to_str().unwrap();
                in_about_three_seconds(
                    begun,
                    chrono::DateTime::parse_from_rfc3339(reset).unwrap().into(),
                );
            }
        }
    }
    server.finish();
}

fn in_about_three_seconds(begun: SystemTime, date: SystemTime) {
    let seconds = date.duration_since(begun).unwrap();
    assert!(seconds >= Duration::from_secs(3), "never early: {seconds:?}");
    assert!(seconds < Duration::from_secs(33), "{seconds:?}");
}
