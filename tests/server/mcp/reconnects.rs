//! A client that is lost during a wait: it can repeat the wait and gets the same answer, no task
//! runs twice, and no notification is lost.

use std::time::Duration;

use adjutant_script::{Script, When, text};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::support::fleet::Fleet;
use crate::support::mcp_client::{McpStdioClient, mcp, post};
use crate::support::orchestrator::{CONFIG, Orchestrator, SESSION};
use crate::support::test_server::TestServer;
use crate::support::world::until;

const SLOW: &str =
    "[agents.slow]\ndescription = 'Takes its time'\nsystem_prompt = 'You are slow.'\n";

fn start(server: &TestServer, secret: &str, session: &str) -> McpStdioClient {
    let mut command = mcp();
    command.args(["--url", &format!("http://{}", server.address), "--session", session]);
    command.env("ADJUTANT_API_KEY", secret);
    McpStdioClient::start(command)
}

fn wait_params() -> Value {
    json!({"name": "subagent", "arguments": {"action": "wait", "timeout_s": 45}})
}

/// Waits until the server has queried once for the wait, and sleeps.
async fn until_waiting(orchestrator: &Orchestrator) {
    until("the server waits", async || {
        let waiting = "select count(*) from pg_stat_activity where datname = current_database() and query like '%wait_1%'
            and query not like '%pg_stat_activity%' and state = 'idle'";
        orchestrator.world.count(waiting).await > 0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_killed_in_the_middle_of_a_wait_gets_the_same_answer_from_the_next() {
    let script = Script::new()
        .on(When::assignment("Take your time"))
        .then(text("At last.").delay(Duration::from_secs(3)));
    let fleet = Fleet::with(script, |_| SLOW.to_owned()).await;
    let _worker = fleet.worker();
    let secret = fleet.world.api_key("tenant", "delegate").await;
    let config = std::fs::read_to_string(fleet.file("adjutant.toml")).unwrap();
    let server = TestServer::of(&fleet.world, &config);
    let client = start(&server, &secret, "shop");
    client.initialize("2025-06-18").await;
    let spawn = json!({"action": "spawn", "agent": "slow", "task": "Take your time"});
    until("the agent is defined", async || {
        let agents = client.call("subagent", json!({"action": "list_agents"})).await;
        agents["agents"].as_array().unwrap().iter().any(|agent| agent["name"] == "slow")
    })
    .await;
    client.call("subagent", spawn).await;
    let (_, answer) = client.start_request("tools/call", wait_params()).await;
    until("the task runs", async || {
        fleet.world.count("select count(*) from slot where task is not null").await == 1
    })
    .await;
    client.kill().await;
    assert!(answer.await.is_err());

    let client = start(&server, &secret, "shop");
    client.initialize("2025-11-25").await;
    let waited = client.call("subagent", json!({"action": "wait", "timeout_s": 45})).await;
    assert_eq!(
        (&waited["tasks"][0]["task_id"], &waited["tasks"][0]["status"]),
        (&json!("t_01"), &json!("completed"))
    );
    let collected = client.call("subagent", json!({"action": "collect", "task_id": "t_01"})).await;
    assert_eq!(collected["result"], "At last.");
    assert_eq!(fleet.world.count("select count(*) from task").await, 1);
    assert_eq!(fleet.world.count("select count(*) from attempt").await, 1);
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_abandoned_wait_marks_no_notification_as_read() {
    let orchestrator = Orchestrator::in_process().await;
    let secret = orchestrator.world.api_key("tenant", "delegate").await;
    let server = TestServer::of(&orchestrator.world, CONFIG);
    for lost in ["cancelled", "killed"] {
        let client = start(&server, &secret, SESSION);
        client.initialize("2025-06-18").await;
        let task = orchestrator.spawn("x").await;
        let (id, _answer) = client.start_request("tools/call", wait_params()).await;
        until_waiting(&orchestrator).await;
        if lost == "cancelled" {
            let params = json!({"requestId": id, "reason": "enough"});
            client
                .send(
                    &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
                        .to_string(),
                )
                .await;
            // Answered after the cancel, so the server has processed the cancel then. The client
            // lives on: the cancel alone ends the wait.
            client.request("ping", json!({})).await;
        } else {
            client.kill().await;
            until_no_connections(&server).await;
        }
        orchestrator.claim().await.lease.complete("done".to_owned(), None).write().await.unwrap();
        let waited = orchestrator.wait(json!({})).await;
        assert_eq!(waited["tasks"][0]["task_id"], task.as_str(), "{lost}: {waited}");
        drop(client);
        until_no_connections(&server).await;
    }
}

/// Waits until the server has no connections: a closed connection ends its request.
async fn until_no_connections(server: &TestServer) {
    let port = server.address.rsplit_once(':').unwrap().1.parse::<u16>().unwrap();
    until("the server has closed the connections", async || connections(port) == 0).await;
}

/// The number of TCP connections of the server at this port that are ESTABLISHED or CLOSE_WAIT.
fn connections(port: u16) -> usize {
    let all = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let local = format!(":{port:04X}");
    let is_one = |line: &&str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields[1].ends_with(&local) && ["01", "08"].contains(&fields[3])
    };
    all.lines().skip(1).filter(is_one).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_client_cancels_a_wait_by_message_or_by_disconnecting() {
    let orchestrator = Orchestrator::in_process().await;
    let secret = orchestrator.world.api_key("tenant", "delegate").await;
    let server = TestServer::of(&orchestrator.world, CONFIG);
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let initialize =
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string();
    let id = post(&server, Some(&secret), &[], &initialize)
        .await
        .header("mcp-session-id")
        .unwrap()
        .to_owned();
    let headers = [format!("Mcp-Session-Id: {id}"), "MCP-Protocol-Version: 2025-11-25".to_owned()];
    orchestrator.spawn("x").await;
    let mut params = wait_params();
    params["arguments"]["session_id"] = json!(SESSION);
    let wait =
        json!({"jsonrpc": "2.0", "id": "w", "method": "tools/call", "params": params}).to_string();
    let cancel_wait = async {
        until_waiting(&orchestrator).await;
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "w"}});
        assert_eq!(post(&server, Some(&secret), &headers, &cancel.to_string()).await.status, 202);
    };
    let (answer, ()) = tokio::join!(post(&server, Some(&secret), &headers, &wait), cancel_wait);
    assert!(
        answer.json()["error"]["message"].as_str().unwrap().contains("cancelled"),
        "{answer:?}"
    );

    let mut cut = TcpStream::connect(&server.address).await.unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {secret}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n{wait}",
        server.address,
        wait.len()
    );
    cut.write_all(head.as_bytes()).await.unwrap();
    until_waiting(&orchestrator).await;
    drop(cut);
    until_no_connections(&server).await;
    orchestrator.claim().await.lease.complete("done".to_owned(), None).write().await.unwrap();
    assert_eq!(orchestrator.wait(json!({})).await["tasks"][0]["task_id"], "t_01");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_with_a_progress_token_gets_progress() {
    let orchestrator = Orchestrator::in_process().await;
    let secret = orchestrator.world.api_key("tenant", "delegate").await;
    let server = TestServer::of(&orchestrator.world, CONFIG);
    let client = start(&server, &secret, SESSION);
    client.initialize("2025-06-18").await;
    orchestrator.spawn("x").await;
    let mut params = wait_params();
    params["_meta"] = json!({"progressToken": "p"});
    let (_, answer) = client.start_request("tools/call", params).await;
    until("there are two progress notifications", async || client.notifications().len() >= 2).await;
    orchestrator.claim().await.lease.complete("done".to_owned(), None).write().await.unwrap();
    assert_eq!(answer.await.unwrap()["result"]["structuredContent"]["timed_out"], false);
    let notifications = client.notifications();
    assert!(
        notifications.iter().all(|one| one["method"] == "notifications/progress"
            && one["params"]["progressToken"] == "p")
    );
    assert!(
        notifications[0]["params"]["progress"].as_f64()
            < notifications[1]["params"]["progress"].as_f64(),
        "{notifications:?}"
    );
}
