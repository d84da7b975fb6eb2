//! What is open when its key ends: streams and waits, over HTTP and MCP and in every dialect.

use std::sync::Arc;

use adjutant_server::Dialect;
use serde_json::json;
use tokio::task::JoinHandle;

use crate::server::http::waits::{SESSION, admitted, client, speaking, wait, waiting_calls};
use crate::support::event_server::Stream;
use crate::support::http_client::Answer;
use crate::support::mcp_client::{newest_request, params, post};
use crate::support::orchestrator::CONFIG;
use crate::support::test_server::TestServer;
use crate::support::tool_client::ToolClient;
use crate::support::world::{World, until};

/// Everything that one key holds open at a server.
struct Open {
    stream: Stream,
    calls: Vec<JoinHandle<Answer>>,
}

impl Open {
    /// Returns when all of it is open.
    async fn with(world: &World, server: &Arc<TestServer>, key: &str, client: &ToolClient) -> Self {
        let path = format!("/v1/sessions/{SESSION}/events");
        let bearer = format!("Authorization: Bearer {key}\r\n");
        let mut stream = Stream::open(&server.address, &path, &bearer).await;
        assert_eq!(stream.until("spawned").await.len(), 1);
        let of_spec = [(Dialect::Spec, wait(45.0))];
        let calls = of_spec
            .into_iter()
            .chain(waiting_calls())
            .map(|(dialect, call)| tokio::spawn(admitted(speaking(client, dialect), call)));
        let mut calls: Vec<JoinHandle<Answer>> = calls.collect();
        let (server, key) = (server.clone(), key.to_owned());
        calls.push(tokio::spawn(async move {
            let params = params(Some(SESSION), &wait(45.0));
            let (headers, body) = newest_request("tools/call", params, &json!({}));
            loop {
                let answer = post(&server, Some(&key), &headers, &body).await;
                if !answer.text.contains("RATE_LIMITED") {
                    return answer;
                }
            }
        }));
        until("all calls wait", async || {
            world.count(TASKS).await == 5 && client.post(wait(0.001)).await.status == 429
        })
        .await;
        Self { stream, calls }
    }

    /// Checks that all of it ends, with this error.
    async fn end(self, status: u16, code: &str, message: &str) {
        let events = self.stream.rest().await;
        let last = &events.last().unwrap().data;
        assert_eq!(last, &json!({"kind": "error", "error": code, "message": message}));
        for call in self.calls {
            assert_eq!(call.await.unwrap().refused(status, code), message);
        }
    }
}

/// One that is queued, and one of each call that spawns.
const TASKS: &str =
    "select count(*) from task t join session s on s.id = t.session where s.tenant = 'tenant'";

/// Room for exactly the calls of [`Open`], and an agent for weakincentives.
fn server(world: &World) -> Arc<TestServer> {
    let agent = "[agents.research--logs]\ndescription = 'x'\nsystem_prompt = 'x'\n";
    let text = format!("{CONFIG}{agent}[server]\ntenant_max_waits = 8\n");
    Arc::new(TestServer::of(world, &text))
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_and_waits_of_a_revoked_or_expired_key_end() {
    for statement in [
        "update api_key set revoked_at = now() where tenant = 'tenant'",
        "update api_key set expires_at = now() where tenant = 'tenant'",
        "delete from api_key where tenant = 'tenant'",
    ] {
        let world = World::new().await;
        let server = server(&world);
        let (key, client) = client(&world, &server, "tenant").await;
        let other = crate::server::http::waits::client(&world, &server, "other").await.1;
        let waiting = tokio::spawn(async move { other.post(wait(45.0)).await });
        let open = Open::with(&world, &server, &key, &client).await;
        sqlx::query(statement).execute(&world.sql).await.unwrap();
        open.end(401, "UNAUTHENTICATED", "The key is unknown or no longer valid").await;
        assert!(!waiting.is_finished(), "another key is still good");
        waiting.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archived_tenant_is_refused_and_its_tasks_continue() {
    let world = World::new().await;
    let server = server(&world);
    let (key, client) = client(&world, &server, "tenant").await;
    let open = Open::with(&world, &server, &key, &client).await;
    let since = world.store.archive_tenant("tenant").await.unwrap();
    assert_eq!(world.store.archive_tenant("tenant").await.unwrap(), since, "idempotent");
    let message = "The tenant tenant is archived";
    open.end(403, "FORBIDDEN", message).await;
    until("the key is refused", async || client.post(wait(0.0)).await.status == 403).await;
    assert_eq!(client.post(wait(0.0)).await.refused(403, "FORBIDDEN"), message);
    let claimed = world.worker().await.claim(5).await.unwrap();
    assert_eq!(claimed.len(), 5, "what is queued still runs");
    world.store.unarchive_tenant("tenant").await.unwrap();
    client.post(wait(0.0)).await.ok(200);
    let unknown = world.store.archive_tenant("tennant").await.unwrap_err();
    assert!(unknown.to_string().contains("there is no tenant 'tennant'"), "{unknown}");
}
