//! The tasks extension: a wait as an MCP task.

use adjutant_agent::FailureKind;
use serde_json::{Value, json};

use crate::support::mcp_client::{McpClient, NEWEST, post, tool_call};
use crate::support::orchestrator::{CONFIG, Orchestrator, SESSION};
use crate::support::test_server::TestServer;

async fn client(orchestrator: &Orchestrator) -> McpClient {
    let secret = orchestrator.world.api_key("tenant", "delegate").await;
    McpClient::new(TestServer::of(&orchestrator.world, CONFIG), &secret).with_tasks()
}

async fn wait(client: &McpClient, mut arguments: Value) -> Value {
    arguments["action"] = json!("wait");
    client.call_in(SESSION, &tool_call("subagent", arguments)).await
}

async fn get(client: &McpClient, id: &Value) -> Value {
    client.request("tasks/get", json!({"taskId": id})).await["result"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_is_an_mcp_task_until_its_tasks_have_ended() {
    let orchestrator = Orchestrator::in_process().await;
    let client = client(&orchestrator).await;
    orchestrator.spawn("x").await;
    orchestrator.spawn("y").await;
    for arguments in
        [json!({"task_ids": ["t_01"]}), json!({"task_ids": ["t_01", "t_02"], "mode": "all"})]
    {
        let started = wait(&client, arguments).await;
        assert_eq!(
            (&started["resultType"], &started["status"]),
            (&json!("task"), &json!("working")),
            "{started}"
        );
        assert_eq!((&started["ttlMs"], &started["pollIntervalMs"]), (&Value::Null, &json!(2000)));
        let id = started["taskId"].clone();
        let working = get(&client, &id).await;
        assert_eq!(
            (&working["status"], &working["createdAt"]),
            (&json!("working"), &started["createdAt"])
        );
        assert_eq!(working["resultType"], "complete");
        orchestrator.claim().await.lease.complete("done".to_owned(), None).write().await.unwrap();
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
async fn a_wait_without_ids_waits_for_active_tasks_and_returns_unread_ones_at_once() {
    let orchestrator = Orchestrator::in_process().await;
    let client = client(&orchestrator).await;
    assert_eq!(
        wait(&client, json!({})).await["structuredContent"]["tasks"],
        json!([]),
        "no task is active"
    );
    orchestrator.spawn("x").await;
    let started = wait(&client, json!({})).await;
    orchestrator.claim().await.lease.complete("done".to_owned(), None).write().await.unwrap();
    for _ in 0..2 {
        let done = get(&client, &started["taskId"]).await;
        assert_eq!(done["status"], "completed");
        assert_eq!(done["result"]["structuredContent"]["tasks"][0]["task_id"], "t_01", "{done}");
        assert_eq!(
            wait(&client, json!({})).await["structuredContent"]["tasks"],
            json!([]),
            "the notification was read"
        );
    }
    orchestrator.spawn("y").await;
    orchestrator.claim().await.lease.complete("done".to_owned(), None).write().await.unwrap();
    let waited = wait(&client, json!({})).await;
    assert_eq!(waited["structuredContent"]["tasks"][0]["task_id"], "t_02", "{waited}");
    let plain = wait(&client, json!({"timeout_s": 0, "task_ids": ["t_01"]})).await;
    assert_eq!(plain["resultType"], "complete");
}

#[tokio::test(flavor = "multi_thread")]
async fn row_g_map_a_failed_task_is_an_error_and_a_cancelled_one_is_cancelled() {
    let orchestrator = Orchestrator::in_process().await;
    let client = client(&orchestrator).await;
    orchestrator.spawn("x").await;
    let failing = wait(&client, json!({"task_ids": ["t_01"]})).await["taskId"].clone();
    let claim = orchestrator.claim().await;
    claim
        .lease
        .fail(FailureKind::Model, "Model API error: no".to_owned(), None)
        .write()
        .await
        .unwrap();
    let failed = get(&client, &failing).await;
    assert_eq!(
        (&failed["status"], &failed["result"]["isError"]),
        (&json!("completed"), &json!(true)),
        "{failed}"
    );
    assert_eq!(failed["result"]["structuredContent"]["tasks"][0]["error"], "Model API error: no");

    orchestrator.spawn("y").await;
    let id = wait(&client, json!({"task_ids": ["t_02"]})).await["taskId"].clone();
    let cancelled = client.request("tasks/cancel", json!({"taskId": id})).await;
    assert_eq!(cancelled["result"], json!({"resultType": "complete"}), "{cancelled}");
    assert_eq!(get(&client, &id).await["status"], "cancelled");
    assert_eq!(orchestrator.status("t_02").await["error"], "Task cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_mcp_task_and_another_tenants_are_refused() {
    let orchestrator = Orchestrator::in_process().await;
    let client = client(&orchestrator).await;
    orchestrator.spawn("x").await;
    let id = wait(&client, json!({"task_ids": ["t_01"]})).await["taskId"].clone();
    for method in ["tasks/get", "tasks/cancel"] {
        for wrong in [
            json!("nonsense"),
            json!("wait.1.any.t_09.the%20session"),
            json!("wait.1.any.t_01.nowhere"),
        ] {
            let error = client.request(method, json!({"taskId": wrong})).await;
            assert_eq!(error["error"]["code"], -32602, "{method} {wrong}: {error}");
        }
    }
    let update = client.request("tasks/update", json!({"taskId": id, "inputResponses": {}})).await;
    assert_eq!(update["result"], json!({"resultType": "complete"}), "{update}");
    let other = orchestrator.world.api_key("another", "delegate").await;
    let other = McpClient::new(TestServer::of(&orchestrator.world, CONFIG), &other).with_tasks();
    assert_eq!(other.request("tasks/get", json!({"taskId": id})).await["error"]["code"], -32602);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_without_mcp_tasks_waits_instead() {
    let orchestrator = Orchestrator::in_process().await;
    let secret = orchestrator.world.api_key("tenant", "delegate").await;
    let client = McpClient::new(TestServer::of(&orchestrator.world, CONFIG), &secret);
    orchestrator.spawn("x").await;
    let waited = wait(&client, json!({"task_ids": ["t_01"], "timeout_s": 0.01})).await;
    let answer = &waited["structuredContent"];
    assert_eq!((&answer["tasks"], &answer["timed_out"]), (&json!([]), &json!(true)));
    assert_eq!(answer["unfinished"][0]["why"]["code"], "next", "{answer}");
    let error =
        client.request("tasks/get", json!({"taskId": "wait.1.any.t_01.the%20session"})).await;
    assert_eq!(error["error"]["code"], -32021, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_request_may_omit_the_name_header_but_not_contradict_it() {
    let orchestrator = Orchestrator::in_process().await;
    let secret = orchestrator.world.api_key("tenant", "delegate").await;
    let client = client(&orchestrator).await;
    orchestrator.spawn("x").await;
    let id = wait(&client, json!({"task_ids": ["t_01"]})).await["taskId"].clone();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": NEWEST,
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    });
    for method in ["tasks/get", "tasks/cancel"] {
        let params = json!({"taskId": id, "_meta": meta});
        let body =
            json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let mut headers =
            vec![format!("MCP-Protocol-Version: {NEWEST}"), format!("Mcp-Method: {method}")];
        let answer = post(&client.server, Some(&secret), &headers, &body).await.json();
        assert_eq!(answer["result"]["resultType"], "complete", "{method}: {answer}");
        headers.push("Mcp-Name: wait.1.any.t_02.another".to_owned());
        let error = post(&client.server, Some(&secret), &headers, &body).await.json();
        assert_eq!(error["error"]["code"], -32020, "{method}: {error}");
    }
    assert_eq!(get(&client, &id).await["status"], "cancelled");
}
