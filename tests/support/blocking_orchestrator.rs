//! An orchestrator of a dialect whose calls block until their child ends. The test itself is the
//! worker.

use std::sync::Arc;

use adjutant_agent::AgentConfig;
use adjutant_server::Dialect;
use adjutant_store::{Claim, Ending, Worker};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::support::orchestrator::CONFIG;
use crate::support::test_server::TestServer;
use crate::support::tool_client::{ToolClient, Transport};
use crate::support::world::{World, tool, until};

pub const SESSION: &str = "s";

/// An agent for weakincentives, which calls agents by the names of prompts.
const PROMPT: &str = "
[agents.research--logs]
description = 'Reads logs'
system_prompt = 'You read logs.'
";

pub struct BlockingOrchestrator {
    pub world: World,
    pub server: Arc<TestServer>,
    pub worker: Worker,
    pub client: ToolClient,
}

impl BlockingOrchestrator {
    pub async fn of(dialect: Dialect, transport: Transport) -> Self {
        Self::with(dialect, transport, "").await
    }

    /// With additional settings.
    pub async fn with(dialect: Dialect, transport: Transport, more: &str) -> Self {
        let world = World::new().await;
        world.store.set_cap(30).await.unwrap();
        world
            .store
            .publish_tools(
                &["fetch", "grep", "AgentTool", "subagent"].map(|name| tool(name).into()),
            )
            .await
            .unwrap();
        let server = Arc::new(TestServer::of(&world, &format!("{CONFIG}{PROMPT}{more}")));
        server.post("/v1/sessions", &json!({"session_id": SESSION}).to_string()).await.ok(201);
        let worker = world.worker().await;
        let client = ToolClient::connect(server.clone(), transport, dialect, None, SESSION).await;
        Self { world, server, worker, client }
    }

    /// The answer to a call that needs no worker.
    pub async fn call(&self, arguments: Value) -> Value {
        self.client.delegate(arguments).await
    }

    /// Starts a call and does not wait for its answer.
    pub fn start_call(&self, arguments: Value) -> JoinHandle<Value> {
        let client = self.client.clone();
        tokio::spawn(async move { client.delegate(arguments).await })
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

    /// Makes a call, ends its child, and returns the answer.
    pub async fn call_until_end(
        &self,
        arguments: Value,
        end: impl FnOnce(Claim) -> Ending,
    ) -> Value {
        let call = self.start_call(arguments);
        end(self.claim().await).write().await.unwrap();
        call.await.unwrap()
    }

    /// Makes a call, completes its child with this result, and returns the answer.
    pub async fn call_with_result(&self, arguments: Value, result: &str) -> Value {
        self.call_until_end(arguments, |claim| claim.lease.complete(result.to_owned(), None)).await
    }

    /// Makes a call, completes its child, and returns the child's configuration.
    pub async fn child_of(&self, arguments: Value) -> AgentConfig {
        let call = self.start_call(arguments);
        let claim = self.claim().await;
        let agent_config = AgentConfig::deserialize(&claim.assignment.config).unwrap();
        claim.lease.complete("done".to_owned(), None).write().await.unwrap();
        call.await.unwrap();
        agent_config
    }

    pub async fn tasks(&self) -> i64 {
        self.world.count("select count(*) from task").await
    }
}
