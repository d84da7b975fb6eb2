//! A client that cancels a running call of a blocking dialect.

use std::sync::Arc;

use adjutant_server::Dialect;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::support::blocking_orchestrator::{BlockingOrchestrator, SESSION};
use crate::support::http_client::Answer;
use crate::support::mcp_client::{McpStdioClient, mcp, post_to};
use crate::support::test_server::TestServer;
use crate::support::tool_client::{Transport, delegating_tool};
use crate::support::world::until;

const CONTINUE: &str = "[dialects]\non_client_cancel = \"continue\"\n";

/// The dialects whose calls wait for a task, and a call of each.
fn calls() -> [(Dialect, Value); 4] {
    let dispatch = json!({"mode": "ad_hoc", "prompt_ns": "research", "prompt_key": "logs", "instructions": "Look."});
    [
        (Dialect::Caliban, json!({"prompt": "Look."})),
        (Dialect::Ecs, json!({"category": "research--logs", "prompt": "Look."})),
        (Dialect::Xzatoma, json!({"label": "look", "task_prompt": "Look."})),
        (Dialect::Weakincentives, dispatch),
    ]
}

/// An HTTP client of a revision with connections.
struct Client {
    server: Arc<TestServer>,
    dialect: Dialect,
    headers: Vec<String>,
}

impl Client {
    fn of(orchestrator: &BlockingOrchestrator, dialect: Dialect) -> Self {
        let connection = format!("Mcp-Session-Id: mcp-{}", Uuid::now_v7());
        let headers = vec![
            connection,
            format!("Adjutant-Session: {SESSION}"),
            "MCP-Protocol-Version: 2025-11-25".to_owned(),
        ];
        Self { server: orchestrator.server.clone(), dialect, headers }
    }

    fn start(&self, id: u64, arguments: &Value) -> JoinHandle<Answer> {
        let params = json!({"name": delegating_tool(self.dialect), "arguments": arguments});
        let body = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
            .to_string();
        let path = format!("/mcp?dialect={}", self.dialect.as_str());
        let (server, headers) = (self.server.clone(), self.headers.clone());
        tokio::spawn(async move { post_to(&server, &path, None, &headers, &body).await })
    }

    async fn cancel(&self, id: u64) {
        let body = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
        let path = format!("/mcp?dialect={}", self.dialect.as_str());
        let answer = post_to(&self.server, &path, None, &self.headers, &body.to_string()).await;
        assert_eq!(answer.status, 202, "{answer:?}");
    }
}

async fn state(orchestrator: &BlockingOrchestrator) -> String {
    sqlx::query_scalar("select state::text from task order by number limit 1")
        .fetch_one(&orchestrator.world.sql)
        .await
        .unwrap()
}

async fn spec_call(orchestrator: &BlockingOrchestrator, arguments: Value) -> Answer {
    let path = format!("/v1/sessions/{SESSION}/tools/subagent");
    orchestrator.server.post(&path, &arguments.to_string()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_1_12_and_i_6_an_explicit_cancel_cancels_the_task_which_can_be_continued() {
    for (dialect, call) in calls() {
        let orchestrator = BlockingOrchestrator::of(dialect, Transport::Http).await;
        let client = Client::of(&orchestrator, dialect);
        let running = client.start(7, &call);
        let claim = orchestrator.claim().await;
        client.cancel(8).await;
        assert_ne!(state(&orchestrator).await, "cancelled", "another request was cancelled");
        client.cancel(7).await;
        until("the task is cancelled", async || state(&orchestrator).await == "cancelled").await;
        let answer = running.await.unwrap().json();
        assert!(answer.get("error").is_some(), "{answer}");
        let late = claim.lease.complete("Too late.".to_owned(), None).write().await;
        assert!(late.is_err(), "its worker is fenced off");
        let again = json!({"action": "continue", "task_id": "t_01", "task": "Go on."});
        spec_call(&orchestrator, again).await.ok(200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_breaks_leaves_the_task_running() {
    for (dialect, call) in calls() {
        let orchestrator = BlockingOrchestrator::of(dialect, Transport::Http).await;
        let client = Client::of(&orchestrator, dialect);
        let running = client.start(7, &call);
        let claim = orchestrator.claim().await;
        running.abort();
        assert!(running.await.is_err());
        let other = Client::of(&orchestrator, dialect);
        other.cancel(7).await;
        claim.lease.complete("Found.".to_owned(), None).write().await.unwrap();
        let collected =
            spec_call(&orchestrator, json!({"action": "collect", "task_id": "t_01"})).await;
        assert_eq!(collected.ok(200)["result"], "Found.");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_can_let_the_tasks_of_cancelled_calls_continue() {
    for (dialect, call) in calls() {
        let orchestrator = BlockingOrchestrator::with(dialect, Transport::Http, CONTINUE).await;
        let client = Client::of(&orchestrator, dialect);
        let running = client.start(7, &call);
        let claim = orchestrator.claim().await;
        client.cancel(7).await;
        let answer = running.await.unwrap().json();
        assert!(answer.get("error").is_some(), "its wait ends: {answer}");
        claim.lease.complete("Found.".to_owned(), None).write().await.unwrap();
        let collected =
            spec_call(&orchestrator, json!({"action": "collect", "task_id": "t_01"})).await;
        assert_eq!(collected.ok(200)["result"], "Found.");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cancel_of_an_mcp_task_follows_the_same_setting() {
    for (setting, expected) in [("", "cancelled"), (CONTINUE, "queued")] {
        let orchestrator =
            BlockingOrchestrator::with(Dialect::Caliban, Transport::McpHttp, setting).await;
        let client = orchestrator.client.with_tasks();
        let begun = client.delegate(json!({"prompt": "Look."})).await;
        client.request("tasks/cancel", json!({"taskId": begun["taskId"]})).await;
        assert_eq!(state(&orchestrator).await, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn over_stdio_a_cancel_reaches_the_task_and_the_end_of_the_client_does_not() {
    let orchestrator = BlockingOrchestrator::of(Dialect::Caliban, Transport::Http).await;
    let start = async || {
        let mut command = mcp();
        command.args(["--dialect", "caliban", "--session", SESSION]);
        command.args(["--url", &format!("http://{}", orchestrator.server.address)]);
        let client = McpStdioClient::start(command);
        client.initialize("2025-11-25").await;
        client
    };
    let params = json!({"name": "AgentTool", "arguments": {"prompt": "Look."}});
    let client = start().await;
    let (id, _answer) = client.start_request("tools/call", params.clone()).await;
    orchestrator.claim().await;
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    client.send(&cancel.to_string()).await;
    until("the task is cancelled", async || state(&orchestrator).await == "cancelled").await;
    let alive = client.request("ping", json!({})).await;
    assert!(alive.get("result").is_some(), "{alive}");
    assert_eq!(client.notifications(), [] as [Value; 0], "a cancelled request has no answer");

    let other = start().await;
    other.start_request("tools/call", params).await;
    let claim = orchestrator.claim().await;
    other.close_input().await;
    other.exited().await;
    claim.lease.complete("Found.".to_owned(), None).write().await.unwrap();
}
