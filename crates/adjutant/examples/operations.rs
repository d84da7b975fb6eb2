//! Calls the tools in your own process, without a server. The service takes the same calls as HTTP
//! and MCP, and gives the same answers.
//! `adjutant postgres --throwaway -- cargo run --package adjutant --example operations`

#[expect(dead_code, reason = "this example defines and collects through the service")]
mod setup;

use std::sync::Arc;
use std::time::Duration;

use adjutant_script::{Script, When, text};
use adjutant_server::{Caller, Dialect, Hub, Policy, Scope, ToolCall, ToolService};
use adjutant_store::{NewSession, Operator, Store};
use adjutant_worker::tools::{Toolbox, ToolsConfig};
use adjutant_worker::{Agents, Worker};
use serde_json::{Value, json};

/// A caller with the scope `delegate`, and the service that it calls.
struct Orchestrator {
    service: ToolService,
    caller: Caller,
}

impl Orchestrator {
    async fn call(&self, arguments: Value) -> setup::Result<Value> {
        let tool = "subagent".to_owned();
        let call = ToolCall { tool, arguments, idempotency_key: None, traceparent: None };
        Ok(self.service.call(&self.caller, "review", call, Dialect::Spec).await?.value)
    }
}

pub async fn run(database_url: &str) -> setup::Result<Value> {
    Store::migrate(database_url).await?;
    let store = Store::open(database_url, 4).await?;
    let (_model, models) =
        setup::models(Script::new().on(When::any()).then(text("Nothing is wrong."))).await?;
    let toolbox = Arc::new(Toolbox::start(&ToolsConfig::default(), Vec::new())?);
    let worker = Worker::start(setup::settings(database_url), Agents::new(models, toolbox)).await?;

    let policy = Policy {
        operator: Operator { default_model: "main".to_owned(), ..Operator::default() },
        models: vec!["main".to_owned()],
        ..Policy::default()
    };
    let hub = Hub::start(store.clone(), database_url.to_owned());
    let caller = Caller::new("me", &[Scope::Delegate]);
    let orchestrator =
        Orchestrator { service: ToolService::new(store.clone(), hub, policy), caller };

    let review =
        NewSession { tenant: "me".to_owned(), name: "review".to_owned(), ..NewSession::default() };
    store.create_session(&review).await?;
    let define = json!({
        "action": "define", "name": "reviewer", "description": "Reviews code", "system_prompt": "You review code.",
    });
    orchestrator.call(define).await?;
    let spawn = json!({"action": "spawn", "agent": "reviewer", "task": "Review the last commit."});
    let task = orchestrator.call(spawn).await?["task_id"].clone();
    orchestrator.call(json!({"action": "wait", "task_ids": [task]})).await?;
    let collected = orchestrator.call(json!({"action": "collect", "task_id": task})).await?;
    worker.drain(Duration::from_secs(5)).await;
    Ok(collected)
}

#[tokio::main]
async fn main() -> setup::Result<()> {
    println!("{:#}", run(&std::env::var("DATABASE_URL")?).await?);
    Ok(())
}
