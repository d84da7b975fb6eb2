//! Bodies and heads that are refused before a tool is called.

use crate::support::http_client::send;
use crate::support::test_server::TestServer;
use crate::support::world::World;

const CALL: &str = "/v1/sessions/s/tools/shared_context";

async fn with_session(world: &World) -> TestServer {
    let server = TestServer::on(world);
    server.post("/v1/sessions", r#"{"session_id": "s"}"#).await.ok(201);
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_body_is_refused_and_writes_nothing() {
    let world = World::new().await;
    let server = with_session(&world).await;
    let write = |value: &str| format!(r#"{{"action": "write", "key": "a", "value": "{value}"}}"#);
    for (body, field) in [
        (String::new(), "body"),
        (" ".to_owned(), "body"),
        (write("x") + "{}", "body"),
        (write("x").replace('}', ""), "body"),
        (write(r"\u0000"), "value"),
        (write(r"\ud800"), "value"),
        (r#"{"action": "write", "key": "a", "value": "x", "key": "b"}"#.to_owned(), "key"),
        ("[".repeat(100_000), "body"),
        ("[]".to_owned(), "arguments"),
        ("null".to_owned(), "arguments"),
    ] {
        let message = server.post(CALL, &body).await.refused(400, "INVALID_ARGUMENT");
        let shown: String = body.chars().take(80).collect();
        assert!(message.starts_with(&format!("{field}: ")), "{shown}: {message}");
    }
    let mut bytes = format!("POST {CALL} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 3\r\n\r\n").into_bytes();
    bytes.extend_from_slice(b"\"\xff\"");
    let message = send(&server.address, &bytes).await.refused(400, "INVALID_ARGUMENT");
    assert_eq!(message, "body: must be UTF-8");
    assert_eq!(world.count("select count(*) from context_entry").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_json_is_accepted() {
    let world = World::new().await;
    let server = with_session(&world).await;
    let body = r#"{"action": "list_keys"}"#;
    for headers in [
        &["Content-Type: text/plain"][..],
        &[],
        &["Content-Type: application/x-www-form-urlencoded"],
    ] {
        server.request("POST", CALL, headers, body).await.refused(415, "UNSUPPORTED_MEDIA_TYPE");
    }
    server
        .request("POST", CALL, &["Content-Type: application/json; charset=utf-8"], body)
        .await
        .ok(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_too_large_is_refused_also_in_chunks() {
    let world = World::new().await;
    let server = with_session(&world).await;
    let body = format!(r#"{{"action": "list_keys", "x": "{}"}}"#, "x".repeat(10 << 20));
    server.post(CALL, &body).await.refused(413, "BODY_TOO_LARGE");
    let chunk = format!("100000\r\n{}\r\n", "x".repeat(1 << 20));
    let chunks = format!(
        "POST {CALL} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}{chunk}0\r\n\r\n"
    );
    send(&server.address, chunks.as_bytes()).await.refused(413, "BODY_TOO_LARGE");
    let expect =
        ["Content-Type: application/json", "Expect: 100-continue", "Content-Length: 99999999"];
    let head =
        format!("POST {CALL} HTTP/1.1\r\nHost: localhost\r\n{}\r\n\r\n", expect.join("\r\n"));
    send(&server.address, head.as_bytes()).await.refused(413, "BODY_TOO_LARGE");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_head_of_a_request_is_limited() {
    let world = World::new().await;
    let server = TestServer::on(&world);
    let many: String = (0..200).map(|nth| format!("X-{nth}: x\r\n")).collect();
    let long = format!("X-Long: {}\r\n", "x".repeat(100_000));
    for headers in [many, long] {
        let request = format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
        let answer = send(&server.address, request.as_bytes()).await;
        answer.refused(431, "HEADERS_TOO_LARGE");
        assert_eq!(answer.header("content-type"), Some("application/json"));
    }
    send(&server.address, b"GET /healthz\r\n\r\n").await.refused(400, "INVALID_ARGUMENT");
    server.get("/healthz").await.ok(200);
}
