//! What a client may hold of a server: connections, and memory for bodies.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::http_client::{Answer, answer};
use crate::support::test_server::TestServer;
use crate::support::world::{World, until, until_within};

/// A connection that stays open, and what it sends with each request.
struct Client {
    connection: TcpStream,
    head: String,
}

impl Client {
    async fn connect(server: &TestServer, key: Option<&str>) -> Self {
        let key = key.map_or(String::new(), |key| format!("Authorization: Bearer {key}\r\n"));
        let head = format!("Host: {}\r\nContent-Type: application/json\r\n{key}", server.address);
        Self { connection: TcpStream::connect(&server.address).await.unwrap(), head }
    }

    async fn get(&mut self, path: &str) -> Answer {
        let request = format!("GET {path} HTTP/1.1\r\n{}\r\n", self.head);
        self.connection.write_all(request.as_bytes()).await.unwrap();
        answer(&mut self.connection).await
    }

    /// Sends a tool call whose body has this many bytes, except for its last byte.
    async fn begin_call(&mut self, bytes: usize) {
        let body = format!("{:<bytes$}", r#"{"action": "list_keys"}"#);
        let head = format!("Content-Length: {bytes}\r\n{}", self.head);
        let path = "/v1/sessions/s/tools/shared_context";
        let request = format!("POST {path} HTTP/1.1\r\n{head}\r\n{}", &body[..bytes - 1]);
        self.connection.write_all(request.as_bytes()).await.unwrap();
    }

    async fn end_call(&mut self) -> Answer {
        self.connection.write_all(b" ").await.unwrap();
        answer(&mut self.connection).await
    }

    async fn call(&mut self, bytes: usize) -> Answer {
        self.begin_call(bytes).await;
        self.end_call().await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_has_a_limited_number_of_connections() {
    let world = World::new().await;
    let server = TestServer::with(&world, "[server]\ntenant_max_connections = 2\n");
    let (own, other) = (world.api_key("own", "read").await, world.api_key("other", "read").await);
    let mut first = Client::connect(&server, Some(&own)).await;
    let mut second = Client::connect(&server, Some(&own)).await;
    for client in [&mut first, &mut second] {
        client.get("/v1/tools").await.ok(200);
    }
    let mut third = Client::connect(&server, Some(&own)).await;
    let refused = third.get("/v1/tools").await;
    let message = refused.refused(429, "RATE_LIMITED");
    assert!(message.contains("has 2 connections at this server"), "{message}");
    assert_eq!(refused.header("retry-after"), Some("5"));
    Client::connect(&server, Some(&other)).await.get("/v1/tools").await.ok(200);
    first.get("/v1/tools").await.ok(200);
    drop(second);
    until("a closed connection no longer counts", async || {
        third.get("/v1/tools").await.status == 200
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_has_a_limited_number_of_connections_unless_it_is_a_trusted_proxy() {
    let world = World::new().await;
    let server = TestServer::with(&world, "[server]\naddress_max_connections = 3\n");
    let mut open = Vec::new();
    for _ in 0..3 {
        let mut client = Client::connect(&server, None).await;
        client.get("/healthz").await.ok(200);
        open.push(client);
    }
    let refused = Client::connect(&server, None).await.get("/healthz").await;
    let message = refused.refused(429, "RATE_LIMITED");
    assert!(message.contains("address has too many connections"), "{message}");
    open.pop();
    until("a closed connection no longer counts", async || {
        Client::connect(&server, None).await.get("/healthz").await.status == 200
    })
    .await;

    let more = "[server]\naddress_max_connections = 3\ntenant_max_connections = 1\ntrusted_proxies = ['127.0.0.1']\n";
    let server = TestServer::with(&world, more);
    let key = world.api_key("tenant", "read").await;
    let mut open = Vec::new();
    for _ in 0..5 {
        let mut client = Client::connect(&server, Some(&key)).await;
        client.get("/v1/tools").await.ok(200);
        open.push(client);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_without_a_key_is_closed_after_half_a_minute() {
    let world = World::new().await;
    let server = TestServer::on(&world);
    let key = world.api_key("tenant", "read").await;
    let mut known = Client::connect(&server, Some(&key)).await;
    known.get("/v1/tools").await.ok(200);
    let mut silent = Client::connect(&server, None).await;
    let mut anonymous = Client::connect(&server, None).await;
    let head = anonymous.head.clone();
    let request = format!("GET /healthz HTTP/1.1\r\n{head}\r\n");
    until_within(Duration::from_secs(50), "it is closed", async || {
        // It is used all the time, so that it is never idle.
        let sent = anonymous.connection.write_all(request.as_bytes()).await;
        sent.is_err() || anonymous.connection.read(&mut [0; 4096]).await.is_ok_and(|read| read == 0)
    })
    .await;
    assert_eq!(silent.connection.read(&mut [0; 1]).await.unwrap(), 0, "so is a silent one");
    known.get("/v1/tools").await.ok(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_for_bodies_is_limited_for_a_tenant_and_for_all() {
    let world = World::new().await;
    let limits = "max_body_bytes = 2000\ntenant_bodies_max_bytes = 3000\nbodies_max_bytes = 5000\n";
    let server = TestServer::with(&world, &format!("[server]\n{limits}"));
    let mut keys = Vec::new();
    for tenant in ["a", "b", "c"] {
        let key = world.api_key(tenant, "delegate").await;
        let bearer = format!("Authorization: Bearer {key}");
        let headers = [bearer.as_str(), "Content-Type: application/json"];
        let body = r#"{"session_id": "s"}"#;
        server.request("POST", "/v1/sessions", &headers, body).await.ok(201);
        keys.push(key);
    }
    let connect = async |nth: usize| Client::connect(&server, Some(&keys[nth])).await;
    let (mut of_first, mut third) = (connect(0).await, connect(2).await);
    let (mut first, message) = until_refused(async || connect(0).await, &mut of_first).await;
    assert!(message.contains("tenant has 3000 bytes of request bodies"), "{message}");
    of_first.call(500).await.ok(200);
    let (mut second, message) = until_refused(async || connect(1).await, &mut third).await;
    assert!(message.contains("server has 5000 bytes of request bodies"), "{message}");
    first.end_call().await.ok(200);
    second.end_call().await.ok(200);
    of_first.call(2000).await.ok(200);
    third.call(1500).await.ok(200);
}

/// Has one client send a body until another one is refused. Returns the client whose body is in
/// memory, and the refusal. A body that comes after that of the other client is refused itself, so
/// each try has a new client.
async fn until_refused(connect: impl AsyncFn() -> Client, other: &mut Client) -> (Client, String) {
    let mut found = None;
    until("the body is in memory", async || {
        let mut client = connect().await;
        client.begin_call(2000).await;
        let call = other.call(1500).await;
        let is_refused = call.status == 429;
        found = is_refused.then(|| (client, call.refused(429, "RATE_LIMITED")));
        is_refused
    })
    .await;
    found.unwrap()
}
