//! A client that is lost in the middle of a wait: it comes again and gets the same answer, and nothing is run twice or told to nobody.

use std::time::Duration;

use adjutant_script::{Script, When, text};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::client::{StdioClient, mcp, post};
use crate::agents_at_work::workplace::Workplace;
use crate::http::server::Server;
use crate::spec::office::{CONFIG, Office, SESSION, key};
use crate::world::until;

const SLOW: &str = "[agents.slow]\ndescription = 'Takes its time'\nsystem_prompt = 'You are slow.'\n";

fn start(server: &Server, secret: &str, session: &str) -> StdioClient {
    let mut command = mcp();
    command.args(["--url", &format!("http://{}", server.address), "--session", session]);
    command.env("ADJUTANT_API_KEY", secret);
    StdioClient::start(command)
}

fn waiting() -> Value {
    json!({"name": "subagent", "arguments": {"action": "wait", "timeout_s": 45}})
}

/// Until whoever waits has looked once, and sleeps.
async fn until_it_looks(office: &Office) {
    until("the waiter looks", async || {
        let looks = "select count(*) from pg_stat_activity where datname = current_database() and query like '%wait_1%'
            and query not like '%pg_stat_activity%' and state = 'idle'";
        office.world.count(looks).await > 0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_killed_in_the_middle_of_a_wait_gets_the_same_answer_from_the_next() {
    let script = Script::new()
        .on(When::assignment("Take your time"))
        .then(text("At last.").delay(Duration::from_secs(3)));
    let place = Workplace::with(script, |_| SLOW.to_owned()).await;
    let _worker = place.worker();
    let secret = key(&place.world, "tenant", "delegate").await;
    let config = std::fs::read_to_string(place.file("adjutant.toml")).unwrap();
    let server = Server::of(&place.world, &config);
    let client = start(&server, &secret, "shop");
    client.initialize("2025-06-18").await;
    let spawn = json!({"action": "spawn", "agent": "slow", "task": "Take your time"});
    until("the agent is known", async || {
        let agents = client.call("subagent", json!({"action": "list_agents"})).await;
        agents["agents"].as_array().unwrap().iter().any(|agent| agent["name"] == "slow")
    })
    .await;
    client.call("subagent", spawn).await;
    let (_, answer) = client.begin("tools/call", waiting()).await;
    until("it runs", async || {
        place.world.count("select count(*) from slot where task is not null").await == 1
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
    assert_eq!(place.world.count("select count(*) from task").await, 1);
    assert_eq!(place.world.count("select count(*) from attempt").await, 1);
    place.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_nobody_listens_to_any_more_is_told_nothing() {
    let office = Office::at_the_desk().await;
    let secret = key(&office.world, "tenant", "delegate").await;
    let server = Server::of(&office.world, CONFIG);
    for lost in ["cancelled", "killed"] {
        let client = start(&server, &secret, SESSION);
        client.initialize("2025-06-18").await;
        let task = office.spawn("x").await;
        let (id, _answer) = client.begin("tools/call", waiting()).await;
        until_it_looks(&office).await;
        if lost == "cancelled" {
            let params = json!({"requestId": id, "reason": "enough"});
            client
                .send(
                    &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
                        .to_string(),
                )
                .await;
            // Answered after the cancellation was: then the server has noticed.
            client.request("ping", json!({})).await;
        } else {
            client.kill().await;
        }
        // A client that goes on keeps a connection that is idle.
        until_connected(&server, if lost == "cancelled" { 1 } else { 0 }).await;
        office.claim().await.lease.complete("done".to_owned(), None).write().await.unwrap();
        let news = office.wait(json!({})).await;
        assert_eq!(news["tasks"][0]["task_id"], task.as_str(), "{lost}: {news}");
    }
}

/// Until the server has at most so many connections: with one that is lost ends what was asked over it.
async fn until_connected(server: &Server, most: usize) {
    let port = server.address.rsplit_once(':').unwrap().1.parse::<u16>().unwrap();
    until("the server has noticed", async || connections(port) <= most).await;
}

/// The connections of the server at this port as the kernel lists them: open, or not yet closed at its own end.
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
async fn an_older_client_takes_a_wait_back_by_a_message_and_a_cut_connection_ends_one() {
    let office = Office::at_the_desk().await;
    let secret = key(&office.world, "tenant", "delegate").await;
    let server = Server::of(&office.world, CONFIG);
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let begin = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string();
    let id = post(&server, Some(&secret), &[], &begin).await.header("mcp-session-id").unwrap().to_owned();
    let headers = [format!("Mcp-Session-Id: {id}"), "MCP-Protocol-Version: 2025-11-25".to_owned()];
    office.spawn("x").await;
    let mut params = waiting();
    params["arguments"]["session_id"] = json!(SESSION);
    let wait = json!({"jsonrpc": "2.0", "id": "w", "method": "tools/call", "params": params}).to_string();
    let take_back = async {
        until_it_looks(&office).await;
        let cancel =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "w"}});
        assert_eq!(post(&server, Some(&secret), &headers, &cancel.to_string()).await.status, 202);
    };
    let (answer, ()) = tokio::join!(post(&server, Some(&secret), &headers, &wait), take_back);
    assert!(answer.json()["error"]["message"].as_str().unwrap().contains("cancelled"), "{answer:?}");

    let mut cut = TcpStream::connect(&server.address).await.unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {secret}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n{wait}",
        server.address,
        wait.len()
    );
    cut.write_all(head.as_bytes()).await.unwrap();
    until_it_looks(&office).await;
    drop(cut);
    until_connected(&server, 0).await;
    office.claim().await.lease.complete("done".to_owned(), None).write().await.unwrap();
    assert_eq!(office.wait(json!({})).await["tasks"][0]["task_id"], "t_01");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_gave_a_token_hears_while_it_waits() {
    let office = Office::at_the_desk().await;
    let secret = key(&office.world, "tenant", "delegate").await;
    let server = Server::of(&office.world, CONFIG);
    let client = start(&server, &secret, SESSION);
    client.initialize("2025-06-18").await;
    office.spawn("x").await;
    let mut params = waiting();
    params["_meta"] = json!({"progressToken": "p"});
    let (_, answer) = client.begin("tools/call", params).await;
    until("progress is told twice", async || client.heard().len() >= 2).await;
    office.claim().await.lease.complete("done".to_owned(), None).write().await.unwrap();
    assert_eq!(answer.await.unwrap()["result"]["structuredContent"]["timed_out"], false);
    let heard = client.heard();
    assert!(
        heard
            .iter()
            .all(|one| one["method"] == "notifications/progress" && one["params"]["progressToken"] == "p")
    );
    assert!(heard[0]["params"]["progress"].as_f64() < heard[1]["params"]["progress"].as_f64(), "{heard:?}");
}
