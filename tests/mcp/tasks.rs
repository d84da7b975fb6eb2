//! The tasks extension: a wait as a task of MCP's.

use adjutant_agent::FailureKind;
use serde_json::{Value, json};

use super::client::{Modern, NEWEST, call, post};
use crate::http::server::Server;
use crate::spec::office::{CONFIG, Office, SESSION, key};

async fn client(office: &Office) -> Modern {
    let secret = key(&office.world, "tenant", "delegate").await;
    Modern::new(Server::of(&office.world, CONFIG), &secret).knowing_tasks()
}

async fn wait(client: &Modern, mut arguments: Value) -> Value {
    arguments["action"] = json!("wait");
    client.call_in(SESSION, &call("subagent", arguments)).await
}

async fn get(client: &Modern, id: &Value) -> Value {
    client.request("tasks/get", json!({"taskId": id})).await["result"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_is_a_task_until_what_it_waits_for_has_ended() {
    let office = Office::at_the_desk().await;
    let client = client(&office).await;
    office.spawn("x").await;
    office.spawn("y").await;
    for arguments in [json!({"task_ids": ["t_01"]}), json!({"task_ids": ["t_01", "t_02"], "mode": "all"})] {
        let begun = wait(&client, arguments).await;
        assert_eq!((&begun["resultType"], &begun["status"]), (&json!("task"), &json!("working")), "{begun}");
        assert_eq!((&begun["ttlMs"], &begun["pollIntervalMs"]), (&Value::Null, &json!(2000)));
        let id = begun["taskId"].clone();
        let working = get(&client, &id).await;
        assert_eq!((&working["status"], &working["createdAt"]), (&json!("working"), &begun["createdAt"]));
        assert_eq!(working["resultType"], "complete");
        office.claim().await.lease.complete("done".to_owned(), None).write().await.unwrap();
        for _ in 0..2 {
            let done = get(&client, &id).await;
            assert_eq!(
                (&done["status"], &done["result"]["isError"]),
                (&json!("completed"), &json!(false)),
                "{done}"
            );
            let answer = &done["result"]["structuredContent"];
            assert_eq!(
                (&answer["tasks"][0]["task_id"], &answer["timed_out"]),
                (&json!("t_01"), &json!(false))
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_for_nothing_in_particular_is_for_what_is_active_and_news_are_told_at_once() {
    let office = Office::at_the_desk().await;
    let client = client(&office).await;
    assert_eq!(wait(&client, json!({})).await["structuredContent"]["tasks"], json!([]), "nothing is active");
    office.spawn("x").await;
    let begun = wait(&client, json!({})).await;
    office.claim().await.lease.complete("done".to_owned(), None).write().await.unwrap();
    for _ in 0..2 {
        let done = get(&client, &begun["taskId"]).await;
        assert_eq!(done["status"], "completed");
        assert_eq!(done["result"]["structuredContent"]["tasks"][0]["task_id"], "t_01", "{done}");
        assert_eq!(wait(&client, json!({})).await["structuredContent"]["tasks"], json!([]), "it was told");
    }
    office.spawn("y").await;
    office.claim().await.lease.complete("done".to_owned(), None).write().await.unwrap();
    let news = wait(&client, json!({})).await;
    assert_eq!(news["structuredContent"]["tasks"][0]["task_id"], "t_02", "{news}");
    let plain = wait(&client, json!({"timeout_s": 0, "task_ids": ["t_01"]})).await;
    assert_eq!(plain["resultType"], "complete");
}

#[tokio::test(flavor = "multi_thread")]
async fn row_g_map_a_task_that_failed_is_an_error_and_one_that_was_cancelled_is_cancelled() {
    let office = Office::at_the_desk().await;
    let client = client(&office).await;
    office.spawn("x").await;
    let failing = wait(&client, json!({"task_ids": ["t_01"]})).await["taskId"].clone();
    let claim = office.claim().await;
    claim.lease.fail(FailureKind::Model, "Model API error: no".to_owned(), None).write().await.unwrap();
    let failed = get(&client, &failing).await;
    assert_eq!(
        (&failed["status"], &failed["result"]["isError"]),
        (&json!("completed"), &json!(true)),
        "{failed}"
    );
    assert_eq!(failed["result"]["structuredContent"]["tasks"][0]["error"], "Model API error: no");

    office.spawn("y").await;
    let id = wait(&client, json!({"task_ids": ["t_02"]})).await["taskId"].clone();
    let stopped = client.request("tasks/cancel", json!({"taskId": id})).await;
    assert_eq!(stopped["result"], json!({"resultType": "complete"}), "{stopped}");
    assert_eq!(get(&client, &id).await["status"], "cancelled");
    assert_eq!(office.status("t_02").await["error"], "Task cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_is_not_there_is_said_and_another_tenants_is_not_there() {
    let office = Office::at_the_desk().await;
    let client = client(&office).await;
    office.spawn("x").await;
    let id = wait(&client, json!({"task_ids": ["t_01"]})).await["taskId"].clone();
    for method in ["tasks/get", "tasks/cancel"] {
        for wrong in
            [json!("nonsense"), json!("wait.1.any.t_09.the%20session"), json!("wait.1.any.t_01.nowhere")]
        {
            let fault = client.request(method, json!({"taskId": wrong})).await;
            assert_eq!(fault["error"]["code"], -32602, "{method} {wrong}: {fault}");
        }
    }
    let update = client.request("tasks/update", json!({"taskId": id, "inputResponses": {}})).await;
    assert_eq!(update["result"], json!({"resultType": "complete"}), "{update}");
    let other = key(&office.world, "another", "delegate").await;
    let other = Modern::new(Server::of(&office.world, CONFIG), &other).knowing_tasks();
    assert_eq!(other.request("tasks/get", json!({"taskId": id})).await["error"]["code"], -32602);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_know_tasks_is_kept_waiting_instead() {
    let office = Office::at_the_desk().await;
    let secret = key(&office.world, "tenant", "delegate").await;
    let client = Modern::new(Server::of(&office.world, CONFIG), &secret);
    office.spawn("x").await;
    let waited = wait(&client, json!({"task_ids": ["t_01"], "timeout_s": 0.01})).await;
    assert_eq!(waited["structuredContent"], json!({"tasks": [], "timed_out": true}));
    let fault = client.request("tasks/get", json!({"taskId": "wait.1.any.t_01.the%20session"})).await;
    assert_eq!(fault["error"]["code"], -32021, "{fault}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_may_be_asked_about_without_its_name_in_a_header_but_not_with_another() {
    let office = Office::at_the_desk().await;
    let secret = key(&office.world, "tenant", "delegate").await;
    let client = client(&office).await;
    office.spawn("x").await;
    let id = wait(&client, json!({"task_ids": ["t_01"]})).await["taskId"].clone();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": NEWEST,
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    });
    for method in ["tasks/get", "tasks/cancel"] {
        let params = json!({"taskId": id, "_meta": meta});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let mut headers = vec![format!("MCP-Protocol-Version: {NEWEST}"), format!("Mcp-Method: {method}")];
        let answer = post(&client.server, Some(&secret), &headers, &body).await.json();
        assert_eq!(answer["result"]["resultType"], "complete", "{method}: {answer}");
        headers.push("Mcp-Name: wait.1.any.t_02.another".to_owned());
        let fault = post(&client.server, Some(&secret), &headers, &body).await.json();
        assert_eq!(fault["error"]["code"], -32020, "{method}: {fault}");
    }
    assert_eq!(get(&client, &id).await["status"], "cancelled");
}
