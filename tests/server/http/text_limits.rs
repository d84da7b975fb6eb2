//! The limits of texts are settings: what is accepted, what is said, and what schemas tell.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::support::mcp_client::McpClient;
use crate::support::test_server::TestServer;
use crate::support::world::World;

const LIMITS: &str = "[limits]
max_task_tokens = 2000
max_value_tokens = 500
max_store_tokens = 1200
max_prompt_tokens = 5000
";

async fn opened(world: &World, more: &str) -> TestServer {
    let server = TestServer::with(world, more);
    server.post("/v1/sessions", r#"{"session_id": "s"}"#).await.ok(201);
    server
}

async fn call(server: &TestServer, tool: &str, body: Value) -> (u16, Value) {
    let answer = server.post(&format!("/v1/sessions/s/tools/{tool}"), &body.to_string()).await;
    (answer.status, answer.json())
}

fn write(key: &str, chars: usize) -> Value {
    json!({"action": "write", "key": key, "value": "é".repeat(chars)})
}

fn define(chars: usize) -> Value {
    json!({"action": "define", "name": "a", "description": "b", "system_prompt": "x".repeat(chars), "replace": true})
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_are_as_long_as_the_operator_allows_and_refusals_name_the_setting() {
    let world = World::new().await;
    let server = opened(&world, LIMITS).await;
    let spawn =
        |chars: usize| json!({"action": "spawn", "agent": "researcher", "task": "x".repeat(chars)});
    let batch = |chars: usize| json!({"action": "batch", "tasks": [{"agent": "researcher", "task": "x".repeat(chars)}]});
    let summary = |chars: usize| json!({"action": "spawn", "agent": "researcher", "task": "x", "summary_prompt": "x".repeat(chars)});
    for (tool, fits, too_long, code, said) in [
        (
            "subagent",
            spawn(8_003),
            spawn(8_004),
            "TASK_TOO_LARGE",
            "2000 tokens, 8003 characters (limits.max_task_tokens)",
        ),
        (
            "subagent",
            batch(8_003),
            batch(8_004),
            "TASK_TOO_LARGE",
            "tasks[0].task: has 8004 characters",
        ),
        (
            "subagent",
            summary(20_003),
            summary(20_004),
            "PROMPT_TOO_LARGE",
            "(limits.max_prompt_tokens)",
        ),
        (
            "subagent",
            define(20_003),
            define(20_004),
            "PROMPT_TOO_LARGE",
            "5000 tokens, 20003 characters (limits.max_prompt_tokens)",
        ),
        (
            "shared_context",
            write("a", 2_003),
            write("b", 2_004),
            "VALUE_TOO_LARGE",
            "500 tokens, 2003 characters (limits.max_value_tokens)",
        ),
    ] {
        let (status, answer) = call(&server, tool, fits).await;
        assert_eq!(status, 200, "{said}: {answer}");
        let (status, answer) = call(&server, tool, too_long).await;
        assert_eq!((status, answer["error"].as_str()), (400, Some(code)), "{answer}");
        assert!(answer["message"].as_str().unwrap().contains(said), "{answer}");
    }

    let (_, answer) = call(&server, "shared_context", write("b", 1_599)).await;
    assert!(answer.get("warning").is_none(), "{answer}");
    let (_, answer) = call(&server, "shared_context", write("b", 1_600)).await;
    assert_eq!(answer["warning"], "The value has 400 tokens; the limit is 500");
    call(&server, "shared_context", write("c", 1_200)).await;
    let (status, answer) = call(&server, "shared_context", write("d", 1)).await;
    assert_eq!((status, answer["error"].as_str()), (409, Some("STORE_FULL")));
    let said = "would have 1201 tokens and may have 1200 (limits.max_store_tokens)";
    assert!(answer["message"].as_str().unwrap().contains(said), "{answer}");

    let body = json!({"session_id": "t", "system_prompt": "x".repeat(20_004)}).to_string();
    let answer = server.post("/v1/sessions", &body).await;
    answer.refused(400, "PROMPT_TOO_LARGE");
    let body = json!({"session_id": "t", "system_prompt": "x".repeat(20_003)}).to_string();
    server.post("/v1/sessions", &body).await.ok(201);
}

#[tokio::test(flavor = "multi_thread")]
async fn schemas_and_sessions_tell_the_limits_of_texts() {
    let world = World::new().await;
    for (more, task, value, store, prompt) in
        [("", 1_000, 1_000, 10_000, 4_000), (LIMITS, 2_000, 500, 1_200, 5_000)]
    {
        let server = Arc::new(TestServer::with(&world, more));
        let name = format!("s{task}");
        let created =
            server.post("/v1/sessions", &json!({"session_id": name}).to_string()).await.ok(201);
        let limits = json!({"max_task_tokens": task, "max_value_tokens": value,
            "max_store_tokens": store, "max_prompt_tokens": prompt});
        assert_eq!(created["text_limits"], limits);
        assert_eq!(
            server.get(&format!("/v1/sessions/{name}")).await.ok(200)["text_limits"],
            limits
        );

        let client = McpClient::without_key(server.clone());
        let listed = client.request("tools/list", json!({})).await;
        let formats =
            [listed["result"]["tools"].clone(), server.get("/v1/tools?format=mcp").await.ok(200)];
        for tools in formats {
            let said = |tool: usize, name: &str| {
                tools[tool]["inputSchema"]["properties"][name]["description"].to_string()
            };
            assert!(said(0, "task").contains(&format!("at most {task} tokens")));
            assert!(said(0, "system_prompt").contains(&format!("at most {prompt} tokens")));
            let item = &tools[0]["inputSchema"]["properties"]["tasks"]["items"]["properties"];
            assert!(item["task"].to_string().contains(&format!("at most {task} tokens")));
            let said = tools[1]["description"].as_str().unwrap();
            assert!(said.contains(&format!("at most {value} tokens")), "{said}");
            assert!(said.contains(&format!("at most {store}")), "{said}");
        }

        let document = server.get("/openapi.json").await.ok(200);
        let longest = |schema: &str, action: &str, field: &str| {
            let path = format!("/v1/sessions/{{session}}/tools/{schema}");
            let forms = &document["paths"][&path]["post"]["requestBody"]["content"]["application/json"]
                ["schema"]["oneOf"];
            let form = forms.as_array().unwrap().iter().find(|form| {
                form["properties"]["action"]["const"] == action
                    && form["properties"].get(field).is_some()
            });
            form.unwrap()["properties"][field]["maxLength"].as_i64().unwrap()
        };
        assert_eq!(longest("subagent", "spawn", "task"), 4 * task + 3);
        assert_eq!(longest("subagent", "continue", "task"), 4 * task + 3);
        assert_eq!(longest("subagent", "define", "system_prompt"), 4 * prompt + 3);
        assert_eq!(longest("shared_context", "write", "value"), 4 * value + 3);
        let session = &document["components"]["schemas"]["NewSession"]["properties"];
        assert_eq!(session["system_prompt"]["maxLength"], json!(4 * prompt + 3));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_longest_texts_that_can_be_set_are_stored_whole() {
    let world = World::new().await;
    let most = "[limits]\nmax_task_tokens = 100000\nmax_value_tokens = 100000\nmax_store_tokens = 100000\nmax_prompt_tokens = 100000\n";
    let server = opened(&world, most).await;
    let (status, answer) = call(&server, "shared_context", write("a", 400_003)).await;
    assert_eq!(status, 200, "{answer}");
    let (_, read) = call(&server, "shared_context", json!({"action": "read", "key": "a"})).await;
    assert_eq!(read["value_size_tokens"], 100_000);
    assert_eq!(read["value"].as_str().unwrap().chars().count(), 400_003);
    let (status, answer) = call(&server, "subagent", define(400_003)).await;
    assert_eq!(status, 200, "{answer}");
    let task = "x".repeat(400_003);
    let spawn = json!({"action": "spawn", "agent": "a", "task": task});
    let (status, answer) = call(&server, "subagent", spawn).await;
    assert_eq!(status, 200, "{answer}");
    let stored: String =
        sqlx::query_scalar("select assignment from task").fetch_one(&world.sql).await.unwrap();
    assert_eq!(stored, task);
}
