//! Access to the server: origins, keys, addresses, unknown routes and health.

use adjutant_store::NewKey;

use crate::support::process::{assert_says, refused};
use crate::support::test_server::TestServer;
use crate::support::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn without_keys_cross_origin_requests_are_refused() {
    let world = World::new().await;
    let server = TestServer::on(&world);
    let own = format!("Origin: http://{}", server.address);
    server.request("GET", "/v1/sessions", &[&own], "").await.ok(200);
    for headers in [
        &["Host: evil.example"][..],
        &["Origin: http://evil.example"],
        &["Origin: null"],
        &["Origin: http://localhost:3000"],
    ] {
        for path in ["/v1/sessions", "/openapi.json"] {
            server.request("GET", path, headers, "").await.refused(403, "FORBIDDEN");
        }
        server.request("GET", "/healthz", headers, "").await.ok(200);
    }
    let preflight =
        server.request("OPTIONS", "/v1/sessions", &["Origin: http://evil.example"], "").await;
    preflight.refused(405, "METHOD_NOT_ALLOWED");
    assert_eq!(preflight.header("access-control-allow-origin"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_key_is_refused() {
    let world = World::new().await;
    let server = TestServer::on(&world);
    for header in [
        "Authorization: Bearer adj_nonsense",
        "Authorization: Bearer x",
        "Authorization: Basic YTpi",
    ] {
        let answer = server.request("GET", "/v1/sessions", &[header], "").await;
        let message = answer.refused(401, "UNAUTHENTICATED");
        assert!(!message.contains("nonsense"), "{message}");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn guesses_of_keys_are_rate_limited_and_valid_keys_are_not() {
    let world = World::new().await;
    let server = TestServer::on(&world);
    let key = NewKey {
        tenant: "a".to_owned(),
        name: "laptop".to_owned(),
        scopes: vec!["read".to_owned()],
        expires_at: None,
        ..NewKey::default()
    };
    let (_, good) = world.store.create_key(&key).await.unwrap();
    let get = async |secret: &str| {
        server
            .request("GET", "/v1/sessions", &[&format!("Authorization: Bearer {secret}")], "")
            .await
    };
    get(&good).await.ok(200);
    let guesses = (0..200).map(|nth| format!("Authorization: Bearer adj_{nth:064}"));
    let guesses: Vec<String> = guesses.collect();
    let guesses =
        guesses.iter().map(|key| async { server.request("GET", "/v1/sessions", &[key], "").await });
    let answers = futures::future::join_all(guesses).await;
    assert!(answers.iter().any(|answer| answer.status == 401));
    // Concurrent guesses count too.
    let slowed = get("adj_another").await;
    slowed.refused(429, "RATE_LIMITED");
    assert!(slowed.header("retry-after").is_some());
    get(&good).await.ok(200);
}

/// A key that the server has not seen yet is among the guesses.
#[tokio::test(flavor = "multi_thread")]
async fn a_valid_key_is_never_refused_for_wrong_keys_from_its_address() {
    let world = World::new().await;
    let server = TestServer::on(&world);
    let key = |name: &str| NewKey {
        tenant: "a".to_owned(),
        name: name.to_owned(),
        scopes: vec!["read".to_owned()],
        expires_at: None,
        ..NewKey::default()
    };
    let get = async |secret: &str| {
        let headers = [format!("Authorization: Bearer {secret}")];
        server.request("GET", "/v1/sessions", &[&headers[0]], "").await
    };
    let guesses: Vec<String> = (0..300).map(|nth| format!("adj_{nth:064}")).collect();
    let flood = async || futures::future::join_all(guesses.iter().map(|guess| get(guess))).await;
    // Concurrent guesses may all be looked up; they limit the next ones.
    flood().await;
    let valid = async {
        for nth in 0..5 {
            let (_, secret) = world.store.create_key(&key(&nth.to_string())).await.unwrap();
            get(&secret).await.ok(200);
        }
    };
    let (answers, ()) = tokio::join!(flood(), valid);
    for answer in answers {
        answer.refused(429, "RATE_LIMITED");
    }
    get("adj_another").await.refused(429, "RATE_LIMITED");
    let (_, secret) = world.store.create_key(&key("last")).await.unwrap();
    get(&secret).await.ok(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_trusted_proxy_wrong_keys_are_limited_by_the_address_of_the_client() {
    let world = World::new().await;
    let trusting = TestServer::with(&world, "[server]\ntrusted_proxies = ['127.0.0.0/8']\n");
    let plain = TestServer::on(&world);
    let guess = async |server: &TestServer, forwarded: &str| {
        let headers = ["Authorization: Bearer adj_wrong", forwarded];
        server.request("GET", "/v1/sessions", &headers, "").await.status
    };
    for (server, forwarded, is_apart) in [
        (&trusting, "X-Forwarded-For: 203.0.113.9, 198.51.100.", true),
        (&trusting, "Forwarded: for=203.0.113.9, for=192.0.2.", true),
        (&plain, "X-Forwarded-For: 198.51.100.", false),
    ] {
        let flood = format!("{forwarded}1");
        let answers = (0..200).map(|_| guess(server, &flood));
        let answers = futures::future::join_all(answers).await;
        assert!(answers.contains(&401), "{flood}: {answers:?}");
        assert_eq!(guess(server, &flood).await, 429, "{flood}");
        let other = guess(server, &format!("{forwarded}2")).await;
        assert_eq!(other, if is_apart { 401 } else { 429 }, "{flood}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_public_address_needs_a_key_first() {
    let world = World::new().await;
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_adjutant"));
    let arguments = ["serve", "--listen", "0.0.0.0:0", "--database-url", world.url()];
    let message = refused(command.args(arguments)).unwrap();
    assert_says(
        &message,
        &["0.0.0.0", "is not a loopback address", "adjutant keys create", "127.0.0.1"],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_in_use_is_reported() {
    let world = World::new().await;
    let server = TestServer::on(&world);
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_adjutant"));
    let message = refused(command.args([
        "serve",
        "--database-url",
        world.url(),
        "--listen",
        &server.address,
    ]))
    .unwrap();
    assert_says(
        &message,
        &[&server.address, "is in use by another Adjutant", "--listen 127.0.0.1:0"],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_routes_answer_in_the_same_form() {
    let world = World::new().await;
    let server = TestServer::on(&world);
    for path in ["/v1", "/v1/sessions/", "/v1/nonsense", "/v2/sessions", "//"] {
        server.get(path).await.refused(404, "ROUTE_NOT_FOUND");
    }
    for (method, path) in [
        ("PUT", "/v1/sessions"),
        ("POST", "/v1/tools"),
        ("DELETE", "/healthz"),
        ("GET", "/v1/sessions/s/archive"),
    ] {
        let answer = server.request(method, path, &[], "").await;
        let message = answer.refused(405, "METHOD_NOT_ALLOWED");
        assert!(message.contains(method), "{message}");
        assert!(answer.header("allow").is_some(), "{answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_follows_the_database_and_liveness_does_not() {
    let world = World::new().await;
    let server = TestServer::on(&world);
    server.get("/readyz").await.ok(200);
    let document = server.get("/openapi.json").await.ok(200);
    assert!(document["paths"]["/v1/sessions/{session}/tools/subagent"]["post"].is_object());
    // As if a later release had migrated the schema.
    sqlx::query("update schema_fit set oldest_release = 999999").execute(&world.sql).await.unwrap();
    let answer = server.get("/readyz").await;
    let message = answer.refused(503, "UNAVAILABLE");
    assert!(message.contains("is too new for this program"), "{message}");
    assert_eq!(answer.header("retry-after"), Some("1"));
    server.get("/healthz").await.ok(200);
}
