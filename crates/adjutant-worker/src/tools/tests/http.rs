use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use serde_json::json;

use super::{KEY, call, serve, toolbox};
use crate::lease_table::lock;

#[tokio::test]
async fn a_call_is_a_post_of_the_arguments_with_the_secrets_and_the_key() {
    let seen: Arc<Mutex<Vec<(HeaderMap, Bytes)>>> = Arc::default();
    let seen_there = seen.clone();
    let answer = post(move |headers: HeaderMap, body: Bytes| async move {
        lock(&seen_there).push((headers, body));
        "the answer"
    });
    let address = serve(Router::new().route("/x", answer)).await;
    let toolbox = toolbox(&format!(
        "[http.x]\ndescription = 'd'\nurl = 'http://{address}/x'\nallow_private = true\nreplay = 'safe'
         headers = {{ authorization = 'Bearer hush', x-path = {{ env = 'PATH' }} }}"
    ));
    let answer = toolbox.call("x", call(&json!({ "word": "é" }))).await;
    assert_eq!(answer.as_deref(), Ok("the answer"));
    let (headers, body) = lock(&seen).remove(0);
    assert_eq!(body, "{\"word\":\"é\"}");
    for (name, value) in [
        ("content-type", "application/json"),
        ("authorization", "Bearer hush"),
        ("x-path", &std::env::var("PATH").unwrap()),
        ("idempotency-key", KEY),
    ] {
        assert_eq!(headers[name], value);
    }
    assert_eq!(toolbox.definitions(["x"], None)[0].replay, adjutant_agent::Replay::Safe);
}

#[tokio::test]
async fn a_status_other_than_success_is_an_error_with_the_start_of_the_body() {
    let visits: Arc<Mutex<usize>> = Arc::default();
    let counted = visits.clone();
    let routes = Router::new()
        .route("/500", post(|| async { (StatusCode::INTERNAL_SERVER_ERROR, "ä".repeat(5000)) }))
        .route(
            "/moved",
            post(|| async { (StatusCode::TEMPORARY_REDIRECT, [(LOCATION, "/there")]) }),
        )
        .route("/there", post(move || async move { *lock(&counted) += 1 }))
        .route("/long", post(|| async { "y".repeat(300_000) }))
        .route("/silent", post(std::future::pending::<()>));
    let address = serve(routes).await;
    let tool = |path: &str| {
        format!(
            "[http.x{path}]\ndescription = ''\nurl = 'http://{address}/{path}?key=hush'\nallow_private = true\ntimeout_s = 0.3\n"
        )
    };
    let toolbox = toolbox(&["500", "moved", "long", "silent"].map(tool).concat());
    let call_tool = async |name: &str| toolbox.call(name, call(&json!({}))).await;
    let error = call_tool("x500").await.unwrap_err();
    assert!(error.starts_with("The tool answered 500 Internal Server Error: ää"), "{error}");
    assert!(error.ends_with("[cut: these are the first 2000 of 10000 bytes]"), "{error}");
    assert!(call_tool("xmoved").await.unwrap_err().contains("redirects are not followed"));
    assert_eq!(*lock(&visits), 0);
    assert!(
        call_tool("xlong")
            .await
            .unwrap()
            .ends_with("[cut: these are the first 65536 of 300000 bytes]")
    );
    let error = call_tool("xsilent").await.unwrap_err();
    assert_eq!(
        error,
        "The tool did not answer within 0.3 s. Whether it had an effect is not known."
    );
}

#[tokio::test]
async fn a_name_that_leads_into_the_network_is_refused_unless_the_operator_allows_it() {
    let address = serve(Router::new().route("/x", post(|| async { "in" }))).await;
    let tool = |allow: &str| {
        format!(
            "[http.x]\ndescription = ''\nurl = 'http://localhost:{}/x'\nallow_private = {allow}",
            address.port()
        )
    };
    let error = toolbox(&tool("false")).call("x", call(&json!({}))).await.unwrap_err();
    assert!(error.contains("not a public one"), "{error}");
    assert_eq!(toolbox(&tool("true")).call("x", call(&json!({}))).await.as_deref(), Ok("in"));
}
