//! Where an orchestrator of another source works in a test: a server, a session, and a wire to its tool.

use std::sync::Arc;

use adjutant_agent::AgentSpec;
use adjutant_server::ToolCall;
use adjutant_store::{Claim, Ending, Worker};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::http::client::Answer;
use crate::http::server::Server;
use crate::mcp::client::{call, modern, params, post_to};
use crate::spec::office::CONFIG;
use crate::world::{World, tool, until};

pub const SESSION: &str = "s";

/// An agent for the dialect that names one.
const PROMPT: &str = "
[agents.research--logs]
description = 'Reads logs'
system_prompt = 'You read logs.'
";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    Http,
    Mcp,
}

pub struct Front {
    pub world: World,
    pub server: Arc<Server>,
    pub worker: Worker,
    pub caller: Caller,
}

/// Who calls one tool of one dialect.
#[derive(Clone)]
pub struct Caller {
    server: Arc<Server>,
    wire: Wire,
    pub dialect: &'static str,
    tool: &'static str,
    session: &'static str,
    pub key: Option<&'static str>,
    capabilities: Value,
}

impl Front {
    pub async fn of(dialect: &'static str, wire: Wire) -> Self {
        Self::with(dialect, wire, "").await
    }

    /// With more in its config.
    pub async fn with(dialect: &'static str, wire: Wire, more: &str) -> Self {
        let world = World::new().await;
        world.store.set_cap(30).await.unwrap();
        world.store.publish_tools(&["fetch", "grep", "AgentTool", "subagent"].map(tool)).await.unwrap();
        let server = Arc::new(Server::of(&world, &format!("{CONFIG}{PROMPT}{more}")));
        server.post("/v1/sessions", &json!({"session_id": SESSION}).to_string()).await.ok(201);
        let worker = world.worker().await;
        let caller = Caller::of(server.clone(), dialect, wire);
        Self { world, server, worker, caller }
    }

    /// What a call gets that needs nobody to work for it.
    pub async fn call(&self, arguments: Value) -> Value {
        self.caller.call(arguments).await
    }

    /// A call that is under way.
    pub fn begin(&self, arguments: Value) -> JoinHandle<Value> {
        let caller = self.caller.clone();
        tokio::spawn(async move { caller.call(arguments).await })
    }

    pub async fn claim(&self) -> Claim {
        let mut claimed = None;
        until("there is a task", async || {
            claimed = self.worker.claim(1).await.unwrap().pop();
            claimed.is_some()
        })
        .await;
        claimed.unwrap()
    }

    /// What a call gets whose child ends like this.
    pub async fn ends(&self, arguments: Value, end: impl FnOnce(Claim) -> Ending) -> Value {
        let begun = self.begin(arguments);
        end(self.claim().await).write().await.unwrap();
        begun.await.unwrap()
    }

    /// What a call gets whose child says this.
    pub async fn says(&self, arguments: Value, result: &str) -> Value {
        self.ends(arguments, |claim| claim.lease.complete(result.to_owned(), None)).await
    }

    /// What the child of a call is; it then says "done".
    pub async fn child_of(&self, arguments: Value) -> AgentSpec {
        let begun = self.begin(arguments);
        let claim = self.claim().await;
        let spec = AgentSpec::deserialize(&claim.assignment.config).unwrap();
        claim.lease.complete("done".to_owned(), None).write().await.unwrap();
        begun.await.unwrap();
        spec
    }

    pub async fn tasks(&self) -> i64 {
        self.world.count("select count(*) from task").await
    }
}

impl Caller {
    pub fn of(server: Arc<Server>, dialect: &'static str, wire: Wire) -> Self {
        Self {
            server,
            wire,
            dialect,
            tool: tool_of(dialect),
            session: SESSION,
            key: None,
            capabilities: json!({}),
        }
    }

    /// In another session.
    pub fn at(&self, session: &'static str) -> Self {
        Self { session, ..self.clone() }
    }

    pub fn with_key(&self, key: &'static str) -> Self {
        Self { key: Some(key), ..self.clone() }
    }

    /// Over MCP, and it knows the extension for tasks.
    pub fn knowing_tasks(&self) -> Self {
        let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
        Self { wire: Wire::Mcp, capabilities, ..self.clone() }
    }

    /// A call that is granted or refused in the dialect's own form.
    pub async fn call(&self, arguments: Value) -> Value {
        match self.wire {
            Wire::Http => self.post(arguments).await.ok(200),
            Wire::Mcp => self.over_mcp(arguments).await,
        }
    }

    pub async fn post(&self, arguments: Value) -> Answer {
        let path = format!("/v1/sessions/{}/tools/{}?dialect={}", self.session, self.tool, self.dialect);
        let key = self.key.map(|key| format!("Idempotency-Key: {key}"));
        let mut headers = vec!["Content-Type: application/json"];
        headers.extend(key.as_deref());
        self.server.request("POST", &path, &headers, &arguments.to_string()).await
    }

    async fn over_mcp(&self, arguments: Value) -> Value {
        let call = ToolCall { idempotency_key: self.key.map(str::to_owned), ..call(self.tool, arguments) };
        let answer = self.request("tools/call", params(Some(self.session), &call)).await;
        let result = &answer["result"];
        if result["resultType"] == "task" {
            return result.clone();
        }
        checked(self.dialect, result)
    }

    /// Any request of MCP's; the whole answer.
    pub async fn request(&self, method: &str, params: Value) -> Value {
        let path = format!("/mcp?dialect={}", self.dialect);
        let (headers, body) = modern(method, params, &self.capabilities);
        post_to(&self.server, &path, None, &headers, &body).await.json()
    }
}

/// The one tool of a dialect.
pub fn tool_of(dialect: &str) -> &'static str {
    match dialect {
        "caliban" => "AgentTool",
        "weakincentives" => "dispatch_subagent",
        _ => "subagent",
    }
}

/// The value in a result of MCP's, after a look whether its other forms say the same.
#[track_caller]
pub fn checked(dialect: &str, result: &Value) -> Value {
    let value = result["structuredContent"].clone();
    let content = result["content"].as_array().unwrap_or_else(|| panic!("no tool's answer: {result}"));
    assert_eq!((content.len(), &content[0]["type"]), (1, &json!("text")), "one block: {result}");
    let text = content[0]["text"].as_str().unwrap();
    let is_error = match dialect {
        "caliban" => {
            assert_eq!(value["text"], text);
            value["is_error"] == true
        }
        "weakincentives" => {
            assert_eq!(value["message"], text);
            value["success"] == false
        }
        _ => {
            assert_eq!(value, serde_json::from_str::<Value>(text).unwrap());
            value["success"] == false
        }
    };
    assert_eq!(result["isError"], is_error, "{result}");
    value
}
