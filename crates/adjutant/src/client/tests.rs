use super::*;
use crate::exit::Exit;

fn client(url: &str, key: Option<&str>) -> anyhow::Result<Client> {
    Client::new(url, key, OutputFormat::Text)
}

fn refusal(status: u16, code: &str) -> CallError {
    let body = format!(r#"{{"error": "{code}", "message": "No."}}"#);
    CallError::Refused(Refusal::read(status, None, &body).unwrap())
}

#[test]
fn path_segments_and_queries_are_percent_encoded() {
    let client = client("https://example.org/base/", None).unwrap();
    let call = ApiRequest {
        path: vec!["v1", "sessions", "a/b c?ü", "archive"],
        query: vec![("q", "x&y=z".to_owned())],
        ..ApiRequest::default()
    };
    let address = client.address(&call);
    assert_eq!(
        address.as_str(),
        "https://example.org/base/v1/sessions/a%2Fb%20c%3F%C3%BC/archive?q=x%26y%3Dz"
    );
}

#[test]
fn neither_key_nor_password_is_shown() {
    let client = client("http://user:secret@example.org", Some("adj_secret")).unwrap();
    assert_eq!(client.url(), "http://example.org");
    assert!(!format!("{:?}", client.key).contains("secret"));
    for wrong in ["ftp://user:secret@example.org", "secret", ""] {
        let error = self::client(wrong, None).unwrap_err().to_string();
        assert!(error.contains("--url") && !error.contains("secret"), "{error}");
    }
    let error = self::client("http://example.org", Some("adj_\nsecret")).unwrap_err().to_string();
    assert!(error.contains("--api-key") && !error.contains("secret"), "{error}");
}

#[test]
fn every_refusal_has_its_exit_code() {
    for (status, code, exit) in [
        (400, "INVALID_ARGUMENT", Exit::Usage),
        (400, "TASK_TOO_LARGE", Exit::Usage),
        (413, "BODY_TOO_LARGE", Exit::Usage),
        (401, "UNAUTHENTICATED", Exit::Refused),
        (403, "FORBIDDEN", Exit::Refused),
        (404, "TASK_NOT_FOUND", Exit::NotFound),
        (409, "TASK_NOT_READY", Exit::NotReady),
        (409, "SESSION_ARCHIVED", Exit::Refused),
        (429, "MAX_TASKS_EXCEEDED", Exit::Refused),
        (429, "RATE_LIMITED", Exit::Refused),
        (500, "INTERNAL", Exit::Error),
        (503, "UNAVAILABLE", Exit::Unreachable),
    ] {
        assert_eq!(refusal(status, code).exit(), exit, "{status} {code}");
    }
}

#[test]
fn only_transient_errors_are_retried() {
    let away = || CallError::NoConnection { url: String::new(), why: String::new() };
    assert!(away().is_transient(Reached::Before));
    assert!(!away().is_transient(Reached::Never), "the address is wrong");
    let cut_off = CallError::NoAnswer { url: String::new(), why: String::new() };
    assert!(cut_off.is_transient(Reached::Never));
    assert!(refusal(503, "UNAVAILABLE").is_transient(Reached::Before));
    assert!(refusal(429, "RATE_LIMITED").is_transient(Reached::Before));
    for (status, code) in [(429, "MAX_TASKS_EXCEEDED"), (500, "INTERNAL"), (404, "TASK_NOT_FOUND")]
    {
        assert!(!refusal(status, code).is_transient(Reached::Before), "{code}");
    }
}

#[test]
fn an_error_of_another_form_is_not_a_refusal() {
    for body in ["", "<html>", "{}", r#"{"error": "X"}"#, r#"{"error": 1, "message": "m"}"#] {
        assert_eq!(Refusal::read(502, None, body), None, "{body}");
    }
}
