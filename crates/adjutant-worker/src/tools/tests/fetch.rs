use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE, LOCATION};
use axum::routing::get;
use serde_json::json;

use super::{call, call_tool, serve, toolbox};
use crate::tools::builtin::fetch::Fetch;
use crate::tools::http_client::{self, HttpClients};
use crate::tools::{FetchConfig, Tool};

const PAGE: &str = "<html><head><title>T</title><style>p{}</style><script>alert(1)</script></head>\
    <body><h1>Hello</h1><p>See <a href='/more'>more</a>.</p></body></html>";

fn pages() -> Router {
    Router::new()
        .route("/page", get(|| async { ([(CONTENT_TYPE, "text/html")], PAGE) }))
        .route("/json", get(|| async { ([(CONTENT_TYPE, "application/json")], "{\"a\":1}") }))
        .route(
            "/untyped",
            get(|| async { axum::response::Response::new("<!doctype html><p>x<p>y".to_owned()) }),
        )
        .route(
            "/latin",
            get(|| async {
                ([(CONTENT_TYPE, "text/plain; charset=ISO-8859-1")], b"caf\xe9".to_vec())
            }),
        )
        .route(
            "/meta",
            get(|| async {
                ([(CONTENT_TYPE, "text/html")], b"<meta charset=windows-1251><p>\xcf\xf0".to_vec())
            }),
        )
        .route("/image", get(|| async { ([(CONTENT_TYPE, "image/png")], "png") }))
        .route("/binary", get(|| async { ([(CONTENT_TYPE, "text/plain")], "a\0b") }))
        .route(
            "/gzip",
            get(|| async { ([(CONTENT_TYPE, "text/plain"), (CONTENT_ENCODING, "gzip")], "zz") }),
        )
        .route("/long", get(|| async { ([(CONTENT_TYPE, "text/plain")], "x".repeat(3 << 20)) }))
        .route("/teapot", get(|| async { (StatusCode::IM_A_TEAPOT, "short and stout") }))
        .route("/hop", get(|| async { (StatusCode::FOUND, [(LOCATION, "json")]) }))
        .route("/loop", get(|| async { (StatusCode::FOUND, [(LOCATION, "/loop")]) }))
        .route("/nowhere", get(|| async { (StatusCode::FOUND, [(LOCATION, "http://[")]) }))
        .route("/silent", get(std::future::pending::<()>))
}

#[tokio::test]
async fn a_page_is_returned_as_text_with_its_url() {
    let address = serve(pages()).await;
    let toolbox = toolbox("[fetch]\nallow_private = true");
    let fetch = async |path: &str| {
        let arguments = json!({ "url": format!("http://{address}{path}") });
        toolbox.call("fetch", call(&arguments)).await
    };
    let page = fetch("/page#part").await.unwrap();
    assert!(page.starts_with(&format!(
        "URL: http://{address}/page\nStatus: 200 OK\nContent-Type: text/html\n\n"
    )));
    assert!(
        page.contains("# Hello") && page.contains("[more][1]") && page.contains("[1]: /more"),
        "{page}"
    );
    assert!(!page.contains("alert") && !page.contains("p{}"), "{page}");
    assert!(fetch("/json").await.unwrap().ends_with("application/json\n\n{\"a\":1}"));
    assert!(fetch("/untyped").await.unwrap().ends_with("Content-Type: \n\nx\n\ny\n"));
    assert!(fetch("/latin").await.unwrap().ends_with("café"));
    assert!(fetch("/meta").await.unwrap().ends_with("Пр\n"));
    let moved = fetch("/hop").await.unwrap();
    assert!(moved.starts_with(&format!("URL: http://{address}/json\n")), "{moved}");
    let teapot = fetch("/teapot").await.unwrap_err();
    assert!(teapot.contains("Status: 418") && teapot.ends_with("short and stout"), "{teapot}");
    let long = fetch("/long").await.unwrap();
    assert!(long.ends_with("bytes]") && long.len() < 70_000);
    for (path, why) in [
        ("/image", "not text"),
        ("/binary", "not text"),
        ("/gzip", "compressed"),
        ("/loop", "more than 5 redirects"),
        ("/nowhere", "invalid URL"),
    ] {
        let error = fetch(path).await.unwrap_err();
        assert!(error.contains(why), "{path}: {error}");
    }
}

#[tokio::test]
async fn a_server_that_is_silent_or_not_there_is_an_error_for_the_child() {
    let address = serve(pages()).await;
    let toolbox = toolbox("[fetch]\nallow_private = true\ntimeout_s = 0.2");
    let silent = json!({ "url": format!("http://{address}/silent") });
    let error = toolbox.call("fetch", call(&silent)).await.unwrap_err();
    assert_eq!(error, "The tool did not answer within 0.2 s.");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = json!({ "url": format!("http://{}/?key=hush", listener.local_addr().unwrap()) });
    drop(listener);
    let error = toolbox.call("fetch", call(&nobody)).await.unwrap_err();
    assert!(error.contains("refused") && !error.contains("hush"), "{error}");
}

#[tokio::test]
async fn arguments_are_checked() {
    let toolbox = toolbox("");
    for (arguments, why) in [
        (json!({}), "`url` is missing"),
        (json!({ "url": null }), "`url` is missing"),
        (json!({ "url": 1 }), "`url` must be a string"),
        (json!({ "url": "" }), "`url` must not be empty"),
        (json!({ "url": "http://a\0b/" }), "NUL"),
        (json!({ "url": "http://a/", "method": "POST" }), "no argument `method`"),
        (json!({ "url": "example.com" }), "not a URL"),
        (json!({ "url": "file:///etc/passwd" }), "Only http"),
        (json!({ "url": "http://user:pass@example.com/" }), "user name or a password"),
    ] {
        let error = toolbox.call("fetch", call(&arguments)).await.unwrap_err();
        assert!(error.contains(why), "{arguments}: {error}");
    }
}

/// A server with a public name that counts requests to forbidden paths.
async fn public_server(
    target: fn(SocketAddr) -> String,
) -> (SocketAddr, Arc<AtomicUsize>, Arc<dyn Tool>) {
    let visits: Arc<AtomicUsize> = Arc::default();
    let counted = visits.clone();
    let secret = get(move || async move {
        counted.fetch_add(1, Ordering::Relaxed);
        "secret"
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let to = target(address);
    let hop = get(move || async move { (StatusCode::TEMPORARY_REDIRECT, [(LOCATION, to)]) });
    let routes = Router::new().route("/away", hop).route("/secret", secret).merge(pages());
    tokio::spawn(async move { axum::serve(listener, routes.fallback(|| async { "?" })).await });
    let mut web = HttpClients::new().unwrap();
    web.public = http_client::public().resolve("public.test", address).build().unwrap();
    (address, visits, Arc::new(Fetch::new(&FetchConfig::default(), &web)))
}

#[tokio::test]
async fn no_way_leads_to_an_address_that_is_not_public() {
    let (address, visits, fetch) = public_server(|_| String::new()).await;
    let port = address.port();
    let json = call_tool(&fetch, json!({ "url": format!("http://public.test:{port}/json") })).await;
    assert!(json.unwrap().contains("{\"a\":1}"), "the public name itself is reached");
    for host in
        ["127.0.0.1", "localhost", "[::1]", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]", "0.0.0.0"]
    {
        let error = call_tool(&fetch, json!({ "url": format!("http://{host}:{port}/secret") }))
            .await
            .unwrap_err();
        assert!(error.contains("not a public one"), "{host}: {error}");
    }
    assert_eq!(visits.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn the_target_of_a_redirect_is_checked_like_any_url() {
    let targets: [fn(SocketAddr) -> String; 6] = [
        |address| format!("http://{address}/secret"),
        |address| format!("http://localhost:{}/secret", address.port()),
        |address| format!("//127.1:{}/secret", address.port()),
        |address| {
            format!("http://public.test:{}@127.0.0.1:{}/secret", address.port(), address.port())
        },
        |_| "http://169.254.169.254/latest/meta-data/".to_owned(),
        |_| "file:///etc/passwd".to_owned(),
    ];
    for target in targets {
        let (address, visits, fetch) = public_server(target).await;
        let to = target(address);
        let error = call_tool(
            &fetch,
            json!({ "url": format!("http://public.test:{}/away", address.port()) }),
        )
        .await;
        let error = error.unwrap_err();
        assert!(
            ["not a public one", "user name", "Only http"].iter().any(|why| error.contains(why)),
            "{to}: {error}"
        );
        assert_eq!(visits.load(Ordering::Relaxed), 0, "{to}");
    }
}
