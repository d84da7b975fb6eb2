//! Every route, tried with a key that may use little: what is not granted is refused as if it did
//! not exist, and is not shown.

use std::collections::BTreeMap;
use std::sync::Arc;

use adjutant_agent::Grants;
use adjutant_store::{NewKey, PublishedTool};
use serde_json::{Value, json};

use crate::support::http_client::Answer;
use crate::support::mcp_client::McpClient;
use crate::support::test_server::TestServer;
use crate::support::world::{World, tool};

const CONFIG: &str = "
default_model = 'main'
[models.main]
wire = 'openai'
[models.dear]
wire = 'openai'
[models.theirs]
wire = 'openai'
tenants = ['acme']
[model_aliases]
best = 'dear'
[agents.researcher]
description = 'Investigates'
system_prompt = 'You are a researcher.'
tools = ['fetch', 'pay']
[agents.research-lead]
description = 'Leads'
system_prompt = 'You lead.'
model = 'dear'
[agents.writer]
description = 'Writes'
system_prompt = 'You write.'
[agents.secretary]
description = 'Only of acme'
system_prompt = 'You keep secrets.'
tenants = ['acme']
[tools.http.pay]
description = 'Pays'
url = 'http://127.0.0.1:9/'
allow_private = true
[limits]
session_max_active = 100
";

/// What a key of the tenant `default` may use.
fn little() -> Grants {
    serde_json::from_value(json!({
        "tools": ["fetch"], "models": ["main"], "agents": ["research*", "agent-tool", "subagent"],
    }))
    .unwrap()
}

struct Tried {
    world: World,
    server: Arc<TestServer>,
    /// May use little.
    key: String,
    /// May use everything that the tenant has.
    full: String,
}

impl Tried {
    async fn new() -> Self {
        let world = World::new().await;
        let server = Arc::new(TestServer::of(&world, CONFIG));
        let theirs =
            PublishedTool { definition: tool("theirs"), tenants: Some(vec!["acme".to_owned()]) };
        let tools = ["fetch", "pay"].map(|name| PublishedTool::from(tool(name)));
        let tools: Vec<_> = tools.into_iter().chain([theirs]).collect();
        world.store.publish_tools(&tools).await.unwrap();
        let key = |name: &str, grants: Grants| NewKey {
            tenant: "default".to_owned(),
            name: name.to_owned(),
            scopes: vec!["delegate".to_owned(), "read".to_owned(), "admin".to_owned()],
            grants,
            ..NewKey::default()
        };
        let full = world.store.create_key(&key("full", Grants::default())).await.unwrap().1;
        let narrow = world.store.create_key(&key("narrow", little())).await.unwrap().1;
        let tried = Self { world, server, key: narrow, full };
        tried.send(&tried.full, "POST", "/v1/sessions", json!({"session_id": "s"})).await.ok(201);
        tried
    }

    async fn send(&self, key: &str, method: &str, path: &str, body: Value) -> Answer {
        let authorization = format!("Authorization: Bearer {key}");
        let headers = ["Content-Type: application/json", authorization.as_str()];
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.server.request(method, path, &headers, &body).await
    }

    async fn refused(&self, method: &str, path: &str, body: Value, code: &str) -> String {
        let answer = self.send(&self.key, method, path, body).await;
        let value = answer.json();
        assert_eq!(value["error"], code, "{method} {path}: {answer:?}");
        value["message"].as_str().unwrap().to_owned()
    }

    /// A call of `subagent` of the default dialect.
    async fn subagent(&self, key: &str, arguments: Value) -> Answer {
        self.send(key, "POST", "/v1/sessions/s/tools/subagent", arguments).await
    }

    /// A call of another dialect, whose refusals are answers of its tool.
    async fn dialect(&self, key: &str, dialect: &str, tool: &str, arguments: Value) -> String {
        let path = format!("/v1/sessions/s/tools/{tool}?dialect={dialect}");
        self.send(key, "POST", &path, arguments).await.text
    }

    /// The id of a task of the full key that has ended.
    async fn ended_task(&self, agent: &str) -> String {
        let spawn = json!({"action": "spawn", "agent": agent, "task": "x", "queue": true});
        let number = self.subagent(&self.full, spawn).await.ok(200);
        let listed = self.send(&self.full, "GET", "/v1/tasks", Value::Null).await.ok(200);
        let tasks = listed["tasks"].as_array().unwrap();
        let id = tasks.iter().find(|task| task["task_id"] == number["task_id"]).unwrap()["id"]
            .as_str()
            .unwrap()
            .to_owned();
        let path = format!("/v1/tasks/{id}/cancel");
        self.send(&self.full, "POST", &path, Value::Null).await.ok(200);
        id
    }

    async fn tasks(&self) -> i64 {
        self.world.count("select count(*) from task").await
    }
}

/// How grants bound a route.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Bound {
    /// Tried in this file, by the function of this name.
    Tried,
    /// It spawns, defines and lists nothing that is granted.
    Free,
}

/// Every route. One that is missing here fails `every_route_is_tried_with_a_key_that_may_not`.
const ROUTES: &[(&str, Bound)] = &[
    ("get /", Bound::Free),
    ("get /healthz", Bound::Free),
    ("get /metrics", Bound::Free),
    ("get /openapi.json", Bound::Tried),
    ("get /readyz", Bound::Free),
    ("get /v1/audit", Bound::Free),
    ("get /v1/sessions", Bound::Free),
    ("post /v1/sessions", Bound::Tried),
    ("get /v1/sessions/{session}", Bound::Free),
    ("patch /v1/sessions/{session}", Bound::Tried),
    ("delete /v1/sessions/{session}", Bound::Free),
    ("post /v1/sessions/{session}/archive", Bound::Free),
    ("post /v1/sessions/{session}/raise", Bound::Free),
    ("get /v1/sessions/{session}/events", Bound::Free),
    ("get /v1/sessions/{session}/prompt", Bound::Tried),
    ("post /v1/sessions/{session}/tools/AgentTool", Bound::Tried),
    ("post /v1/sessions/{session}/tools/dispatch_subagent", Bound::Tried),
    ("post /v1/sessions/{session}/tools/shared_context", Bound::Tried),
    ("post /v1/sessions/{session}/tools/subagent", Bound::Tried),
    ("post /v1/sessions/{session}/tools/subagent_cancel", Bound::Free),
    ("post /v1/sessions/{session}/tools/subagent_result", Bound::Free),
    ("post /v1/sessions/{session}/tools/subagent_status", Bound::Free),
    ("post /v1/sessions/{session}/tools/subagent_wait", Bound::Free),
    ("put /v1/sessions/{session}/webhook", Bound::Free),
    ("delete /v1/sessions/{session}/webhook", Bound::Free),
    ("get /v1/stats", Bound::Free),
    ("get /v1/tasks", Bound::Free),
    ("post /v1/tasks/cancel", Bound::Free),
    ("post /v1/tasks/retry", Bound::Tried),
    ("get /v1/tasks/{id}", Bound::Free),
    ("post /v1/tasks/{id}/cancel", Bound::Free),
    ("get /v1/tasks/{id}/events", Bound::Free),
    ("post /v1/tasks/{id}/raise", Bound::Free),
    ("post /v1/tasks/{id}/retry", Bound::Tried),
    ("get /v1/tasks/{id}/turns", Bound::Free),
    ("get /v1/tools", Bound::Tried),
    ("get /v1/webhooks/deliveries", Bound::Free),
    ("post /v1/webhooks/deliveries/{id}/redeliver", Bound::Free),
    ("get /v1/webhooks/secrets", Bound::Free),
    ("post /v1/webhooks/secrets", Bound::Free),
    ("delete /v1/webhooks/secrets/{id}", Bound::Free),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_route_is_tried_with_a_key_that_may_not() {
    let tried = Tried::new().await;
    let known: BTreeMap<&str, Bound> = ROUTES.iter().copied().collect();
    let document = tried.server.get("/openapi.json").await.ok(200);
    let mut documented = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        documented
            .extend(item.as_object().unwrap().keys().map(|method| format!("{method} {path}")));
    }
    documented.sort_unstable();
    let mut listed: Vec<String> = known.keys().map(|name| (*name).to_owned()).collect();
    listed.sort_unstable();
    assert_eq!(documented, listed, "every route has an entry");
    for (name, bound) in known {
        if bound == Bound::Tried {
            try_route(&tried, name).await;
        }
    }
    let defined = tried.world.count("select count(*) from agent where session is not null").await;
    assert_eq!(defined, 3, "only what the full key has defined");
}

async fn try_route(tried: &Tried, route: &str) {
    let path = route.split_once(' ').unwrap().1.replace("{session}", "s");
    match route {
        "get /openapi.json" => {
            let text = tried.server.get("/openapi.json").await.text;
            assert!(!text.contains("theirs"), "it needs no key, and names no model of a tenant");
        }
        "post /v1/sessions" | "patch /v1/sessions/{session}" => {
            try_session(tried, route, &path).await;
        }
        "get /v1/sessions/{session}/prompt" => {
            for dialect in ["spec", "ecs", "weakincentives"] {
                let path = format!("{path}?dialect={dialect}");
                let prompt = tried.send(&tried.key, "GET", &path, Value::Null).await.text;
                // Its agents have a namespace in their names, and none of these does.
                let names = dialect != "weakincentives";
                assert_eq!(prompt.contains("researcher"), names, "{prompt}");
                assert!(!prompt.contains("writer") && !prompt.contains("secretary"), "{prompt}");
            }
        }
        "get /v1/tools" => {
            let names = async |key: &str| -> Vec<String> {
                let tools = tried.send(key, "GET", &path, Value::Null).await.ok(200);
                let tools = tools.as_array().unwrap().iter();
                tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
            };
            assert_eq!(names(&tried.key).await, ["subagent"]);
            assert_eq!(names(&tried.full).await, ["subagent", "shared_context"]);
        }
        "post /v1/sessions/{session}/tools/shared_context" => {
            for arguments in [
                json!({"action": "list_keys"}),
                json!({"action": "read", "key": "k"}),
                json!({"action": "write", "key": "k", "value": "v"}),
            ] {
                tried.refused("POST", &path, arguments, "INVALID_TOOL").await;
            }
        }
        "post /v1/sessions/{session}/tools/subagent" => try_subagent(tried).await,
        "post /v1/sessions/{session}/tools/AgentTool" => {
            let call = json!({"prompt": "x", "model": "dear"});
            let text = tried.dialect(&tried.key, "caliban", "AgentTool", call).await;
            assert!(text.contains("there is none of this name; there are: main"), "{text}");
            let call = json!({"prompt": "x", "tool_allowlist": ["fetch", "pay"]});
            tried.spawned_with(call.clone(), "caliban", "AgentTool", &["fetch"]).await;
            let call = json!({"prompt": "y"});
            tried.spawned_with(call, "caliban", "AgentTool", &["fetch"]).await;
        }
        "post /v1/sessions/{session}/tools/dispatch_subagent" => {
            let call = |ns: &str| json!({"mode": "ad_hoc", "prompt_ns": ns, "prompt_key": "logs", "instructions": "x"});
            for ns in ["help", "research"] {
                let define = json!({"action": "define", "name": format!("{ns}--logs"), "description": "d",
                    "system_prompt": "p", "tools": ["pay"]});
                tried.subagent(&tried.full, define).await.ok(200);
            }
            let tool = "dispatch_subagent";
            let text = tried.dialect(&tried.key, "weakincentives", tool, call("help")).await;
            assert!(text.contains("There is no prompt"), "{text}");
            tried.spawned_with(call("research"), "weakincentives", tool, &["fetch"]).await;
        }
        "post /v1/tasks/retry" => try_bulk_retry(tried, &path).await,
        "post /v1/tasks/{id}/retry" => {
            for (agent, code) in [("writer", "AGENT_NOT_FOUND"), ("research-lead", "INVALID_MODEL")]
            {
                let id = tried.ended_task(agent).await;
                let before = tried.tasks().await;
                tried.refused("POST", &format!("/v1/tasks/{id}/retry"), Value::Null, code).await;
                assert_eq!(tried.tasks().await, before);
            }
        }
        other => panic!("{other} is not tried"),
    }
}

/// A retry of all tasks, of which the key is granted none.
async fn try_bulk_retry(tried: &Tried, path: &str) {
    tried.ended_task("writer").await;
    tried.ended_task("research-lead").await;
    let before = tried.tasks().await;
    let answer = tried.send(&tried.key, "POST", path, json!({"all": true})).await.ok(200);
    assert_eq!(answer["tasks"], 0, "{answer}");
    assert!(answer["skipped"]["refused"].as_u64() >= Some(2), "{answer}");
    assert_eq!(tried.tasks().await, before);
}

/// A session that is created or changed.
async fn try_session(tried: &Tried, route: &str, path: &str) {
    let method = if route.starts_with("post") { "POST" } else { "PATCH" };
    for (body, code) in [
        (json!({"model": "dear"}), "INVALID_MODEL"),
        (json!({"model": "best"}), "INVALID_MODEL"),
        (json!({"model": "theirs"}), "INVALID_MODEL"),
        (json!({"tools": ["fetch", "pay"]}), "INVALID_TOOL"),
        (json!({"tools": ["shared_context"]}), "INVALID_TOOL"),
    ] {
        let message = tried.refused(method, path, body, code).await;
        assert!(!message.contains("theirs") && !message.contains("dear"), "{message}");
    }
    for (body, code) in [
        (json!({"model": "theirs"}), "INVALID_MODEL"),
        (json!({"tools": ["theirs"]}), "INVALID_TOOL"),
    ] {
        let answer = tried.send(&tried.full, method, path, body).await;
        assert_eq!(answer.json()["error"], code, "of another tenant: {answer:?}");
    }
}

impl Tried {
    /// A call that spawns a task, which gets only these tools.
    async fn spawned_with(&self, call: Value, dialect: &str, tool: &str, tools: &[&str]) {
        let before = self.tasks().await;
        // The caller would wait for the task, which nobody runs.
        let sent = self.dialect(&self.key, dialect, tool, call);
        let stored = crate::support::world::until("the task is stored", async || {
            self.tasks().await > before
        });
        tokio::select! {
            text = sent => assert!(self.tasks().await > before, "{text}"),
            () = stored => {}
        }
        let config: Value =
            sqlx::query_scalar("select config from task order by number desc limit 1")
                .fetch_one(&self.world.sql)
                .await
                .unwrap();
        assert_eq!(config["grants"], serde_json::to_value(little()).unwrap());
        let agent: adjutant_agent::AgentConfig = serde_json::from_value(config).unwrap();
        assert_eq!(agent.allowed_tools().collect::<Vec<_>>(), tools);
    }
}

async fn try_subagent(tried: &Tried) {
    let key = &tried.key;
    let define = |more: Value| {
        let mut call = json!({"action": "define", "name": "research-x", "description": "d", "system_prompt": "p"});
        call.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        call
    };
    let spawn =
        |agent: &str| json!({"action": "spawn", "agent": agent, "task": "x", "queue": true});
    let before = tried.tasks().await;
    for (call, code) in [
        (define(json!({"tools": ["pay"]})), "INVALID_TOOL"),
        (define(json!({"tools": ["fetch", "shared_context"]})), "INVALID_TOOL"),
        (define(json!({"model": "dear"})), "INVALID_MODEL"),
        (define(json!({"name": "helper"})), "AGENT_NOT_FOUND"),
        (define(json!({"extends": "writer"})), "AGENT_NOT_FOUND"),
        (define(json!({"extends": "secretary"})), "AGENT_NOT_FOUND"),
        (define(json!({"extends": "research-lead"})), "INVALID_MODEL"),
        (spawn("writer"), "AGENT_NOT_FOUND"),
        (spawn("secretary"), "AGENT_NOT_FOUND"),
        (spawn("research-lead"), "INVALID_MODEL"),
        (
            json!({"action": "batch", "tasks": [{"agent": "researcher", "task": "x"}, {"agent": "writer", "task": "x"}]}),
            "AGENT_NOT_FOUND",
        ),
    ] {
        let answer = tried.subagent(key, call.clone()).await;
        assert_eq!(answer.json()["error"], code, "{call}: {answer:?}");
    }
    assert_eq!(tried.tasks().await, before);
    let id = tried.ended_task("writer").await;
    let record =
        tried.send(&tried.full, "GET", &format!("/v1/tasks/{id}"), Value::Null).await.ok(200);
    let on = json!({"action": "continue", "task_id": record["task_id"], "task": "y"});
    assert_eq!(tried.subagent(key, on).await.json()["error"], "AGENT_NOT_FOUND");
    let listed = tried.subagent(key, json!({"action": "list_agents"})).await.ok(200);
    let agents = listed["agents"].as_array().unwrap();
    let names: Vec<&Value> = agents.iter().map(|agent| &agent["name"]).collect();
    let own = ["research--logs", "researcher"];
    assert_eq!(names, own, "neither its model nor its name may be of others");
    assert!(!listed.to_string().contains("pay"), "{listed}");
    // An agent of the same session that another key has defined.
    let wide = define(json!({"name": "research-wide", "tools": ["fetch", "pay"]}));
    tried.subagent(&tried.full, wide).await.ok(200);
    tried.subagent(key, spawn("research-wide")).await.ok(200);
    let config: Value = sqlx::query_scalar("select config from task order by number desc limit 1")
        .fetch_one(&tried.world.sql)
        .await
        .unwrap();
    let agent: adjutant_agent::AgentConfig = serde_json::from_value(config).unwrap();
    assert_eq!(agent.allowed_tools().collect::<Vec<_>>(), ["fetch"]);
    // The same tool of other dialects.
    let text = tried
        .dialect(
            key,
            "ecs",
            "subagent",
            json!({"category": "writer", "prompt": "x", "background": true}),
        )
        .await;
    assert!(text.contains("Unknown subagent 'writer'"), "{text}");
    let call = json!({"label": "l", "task_prompt": "x", "allowed_tools": ["pay"]});
    let text = tried.dialect(key, "xzatoma", "subagent", call).await;
    assert!(text.contains("Unknown tool in allowed_tools: pay"), "{text}");
    let call = json!({"label": "l", "task_prompt": "x"});
    tried.spawned_with(call, "xzatoma", "subagent", &["fetch"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mcp_shows_and_allows_no_more_than_http() {
    let tried = Tried::new().await;
    let client = McpClient::new(tried.server.clone(), &tried.key);
    let listed = client.request("tools/list", json!({})).await;
    let tools = listed["result"]["tools"].as_array().unwrap();
    assert_eq!(tools.iter().map(|tool| &tool["name"]).collect::<Vec<_>>(), ["subagent"]);
    let call = async |tool: &str, arguments: Value| {
        let params = json!({"name": tool, "arguments": arguments});
        client.request("tools/call", params).await["result"]["structuredContent"].clone()
    };
    let write = json!({"action": "write", "key": "k", "value": "v", "session_id": "s"});
    assert_eq!(call("shared_context", write).await["error"], "INVALID_TOOL");
    let spawn = json!({"action": "spawn", "agent": "writer", "task": "x", "session_id": "s"});
    assert_eq!(call("subagent", spawn).await["error"], "AGENT_NOT_FOUND");
    for uri in ["adjutant://sessions/s/context", "adjutant://sessions/s/context/k"] {
        let answer = client.request("resources/read", json!({"uri": uri})).await;
        assert!(answer["error"]["message"].as_str().unwrap().contains("INVALID_TOOL"), "{answer}");
    }
    let arguments = json!({"name": "orchestrator", "arguments": {"session_id": "s"}});
    let prompt = client.request("prompts/get", arguments).await.to_string();
    assert!(prompt.contains("researcher") && !prompt.contains("writer"), "{prompt}");
}
