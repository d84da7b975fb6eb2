//! A worker inside your own program, with a tool that is a Rust function.
//! `adjutant postgres --throwaway -- cargo run --package adjutant --example rust_tool`

mod setup;

use std::sync::Arc;
use std::time::Duration;

use adjutant_agent::{Outcome, Replay, TextLimits, ToolDefinition};
use adjutant_script::{Script, When, text, tool_call};
use adjutant_server::Hub;
use adjutant_store::{NewSession, Operator, Redefinition, Store};
use adjutant_worker::tools::{Limits, RustCall, RustTool, Tool, Toolbox, ToolsConfig};
use adjutant_worker::{Agents, Worker};
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
struct Order {
    number: u32,
}

/// The tool only reads, so a call whose worker died can be repeated: `Replay::Safe`.
fn order_status() -> Arc<dyn Tool> {
    let definition = ToolDefinition {
        name: "order_status".to_owned(),
        description: "Returns the status of an order.".to_owned(),
        input_schema: json!({
            "type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"],
        }),
        replay: Replay::Safe,
    };
    let tool = RustTool::new(definition, |call: RustCall| async move {
        let order: Order = call.arguments()?;
        Ok(format!("Order {} was shipped today.", order.number))
    });
    Arc::new(tool.within(Limits { time: Duration::from_secs(10), ..Limits::default() }))
}

pub async fn run(database_url: &str) -> setup::Result<String> {
    Store::migrate(database_url).await?;
    let store = Store::open(database_url, 4).await?;
    let script = Script::new()
        .on(When::any())
        .then(tool_call("order_status", json!({"number": 7})))
        .then(text("Order 7 is on its way."));
    let (_model, models) = setup::models(script).await?;

    let toolbox = Arc::new(Toolbox::start(&ToolsConfig::default(), vec![order_status()])?);
    // So that servers know the tools of the fleet.
    store.publish_tools(&toolbox.catalogue(&TextLimits::DEFAULT)).await?;
    let worker = Worker::start(setup::settings(database_url), Agents::new(models, toolbox)).await?;

    let shop =
        NewSession { tenant: "me".to_owned(), name: "shop".to_owned(), ..NewSession::default() };
    let session = store.create_session(&shop).await?.id;
    store.define(session, &setup::agent("clerk", &["order_status"])?, Redefinition::Refuse).await?;
    let new = setup::task("clerk", "Where is order 7?");
    // The task is durable when this returns.
    let spawned = store.delegate(session, &new, &Operator::default(), None).await?;

    let hub = Hub::start(store.clone(), database_url.to_owned());
    let outcome = setup::outcome(&store, &hub, session, spawned.number).await?;
    worker.drain(Duration::from_secs(5)).await;
    match outcome {
        Outcome::Completed { result, .. } => Ok(result),
        Outcome::Failed { error, .. } => Err(error.into()),
        Outcome::Cancelled { .. } => Err("the task was cancelled".into()),
    }
}

#[tokio::main]
async fn main() -> setup::Result<()> {
    println!("{}", run(&std::env::var("DATABASE_URL")?).await?);
    Ok(())
}
