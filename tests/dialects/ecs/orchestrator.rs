//! An orchestrator of the `ecs` dialect: a server, a session, a client, and a worker that the test
//! itself is.

use std::sync::Arc;

use adjutant_agent::FailureKind;
use adjutant_server::Dialect;
use adjutant_store::{Claim, Worker};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::support::http_client::Answer;
use crate::support::mcp_client::tool_call;
use crate::support::test_server::TestServer;
use crate::support::tool_client::{ToolClient, Transport};
use crate::support::world::{World, tool};

pub const CONFIG: &str = "
[models.main]
wire = 'openai'
[agents.researcher]
description = 'Investigates'
system_prompt = 'You are a research specialist.'
tools = ['fetch']
skills = ['web-search']
[agents.writer]
description = 'Writes'
system_prompt = 'You write.'
timeout_s = 20
[agents.careful]
description = 'Is never resumed'
system_prompt = 'You are careful.'
on_worker_loss = 'fail'
[agents.strict]
description = 'Must inherit'
system_prompt = 'You are strict.'
[agents.strict.inheritance]
inherit_tools = ['fly']
missing_skill_policy = 'error'
[skills.web-search]
description = 'Searches'
instructions = 'Search twice.'
tools = ['fetch']
[skills.sql]
description = 'Reads tables'
instructions = 'Count first.'
tools = ['shared_context']
";

pub struct EcsOrchestrator {
    pub world: World,
    pub server: Arc<TestServer>,
    pub worker: Worker,
    client: ToolClient,
}

impl EcsOrchestrator {
    pub async fn new() -> Self {
        Self::with("").await
    }

    /// With more in its config.
    pub async fn with(more: &str) -> Self {
        let world = World::new().await;
        let server = Arc::new(TestServer::of(&world, &format!("{CONFIG}{more}")));
        world.store.publish_tools(&[tool("fetch").into()]).await.unwrap();
        let worker = world.worker().await;
        server.post("/v1/sessions", r#"{"session_id": "s"}"#).await.ok(201);
        let client =
            ToolClient::connect(server.clone(), Transport::Http, Dialect::Ecs, None, "s").await;
        Self { world, server, worker, client }
    }

    pub async fn raw(&self, tool: &str, arguments: &Value) -> Answer {
        self.client.post(tool_call(tool, arguments.clone())).await
    }

    /// The answer of a valid call.
    pub async fn call(&self, tool: &str, arguments: Value) -> Value {
        self.raw(tool, &arguments).await.ok(200)
    }

    /// A call that is waiting for its answer.
    pub fn start_call(&self, tool: &str, arguments: Value) -> JoinHandle<Value> {
        let (client, call) = (self.client.clone(), tool_call(tool, arguments));
        tokio::spawn(async move { client.post(call).await.ok(200) })
    }

    /// Launches a session in the background; its id.
    pub async fn launch(&self, category: &str) -> String {
        let arguments = json!({"category": category, "prompt": "Do it.", "background": true});
        self.call("subagent", arguments).await["session_id"].as_str().unwrap().to_owned()
    }

    pub async fn claim(&self) -> Claim {
        self.world.claim_one(&self.worker).await
    }

    pub async fn completed(&self, result: &str, summary: Option<&str>) -> String {
        let session = self.launch("writer").await;
        let claim = self.claim().await;
        claim.lease.complete(result.to_owned(), summary.map(str::to_owned)).write().await.unwrap();
        session
    }

    pub async fn failed(&self, failure: FailureKind, error: &str) -> String {
        let session = self.launch("writer").await;
        self.claim().await.lease.fail(failure, error.to_owned(), None).write().await.unwrap();
        session
    }

    pub async fn status(&self, session: &str) -> Value {
        self.call("subagent_status", json!({"session_id": session})).await
    }

    pub async fn result(&self, session: &str) -> Value {
        self.call("subagent_result", json!({"session_id": session, "timeout": 0})).await
    }

    /// The configuration of the task.
    pub async fn config(&self, session: &str) -> Value {
        let number: i32 = session.strip_prefix("t_").unwrap().parse().unwrap();
        sqlx::query_scalar("select config from task where number = $1")
            .bind(number)
            .fetch_one(&self.world.sql)
            .await
            .unwrap()
    }
}
