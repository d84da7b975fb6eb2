//! A subscriber to the events of a session. It receives the start and the end of every delegation
//! once, in order, and only after they are stored.
//! `adjutant postgres --throwaway -- cargo run --package adjutant --example subscriber`

#[expect(dead_code, reason = "this example learns of ends from events")]
mod setup;

use std::sync::Arc;
use std::time::Duration;

use adjutant_agent::{EventKind, TaskId};
use adjutant_script::{Script, When, text};
use adjutant_server::{Hub, Subscription};
use adjutant_store::{NewSession, Operator, Redefinition, Store};
use adjutant_worker::tools::{Toolbox, ToolsConfig};
use adjutant_worker::{Agents, Worker};

const TENANT: &str = "me";

/// The start or the end of a delegation. Both have the task's id.
#[derive(Debug, PartialEq, Eq)]
pub enum Delegation {
    Started { correlation: TaskId, agent: String, task: String, traceparent: Option<String> },
    Completed { correlation: TaskId, agent: String, result: Option<String>, error: Option<String> },
}

/// The next start or end. The details come from the stored task, which is written in the same
/// transaction as the event.
async fn next(store: &Store, events: &mut Subscription) -> setup::Result<Delegation> {
    loop {
        let event = events.next().await?;
        let record = store.task(TENANT, event.task).await?;
        let (correlation, agent) = (event.task, record.entry.task.agent);
        if event.kind == EventKind::Spawned {
            let (task, traceparent) = (record.assignment, record.traceparent);
            return Ok(Delegation::Started { correlation, agent, task, traceparent });
        } else if event.kind.is_terminal() {
            let (result, error) = (record.result, record.entry.task.error);
            return Ok(Delegation::Completed { correlation, agent, result, error });
        }
    }
}

pub async fn run(database_url: &str) -> setup::Result<Vec<Delegation>> {
    Store::migrate(database_url).await?;
    let store = Store::open(database_url, 4).await?;
    let (_model, models) = setup::models(Script::new().on(When::any()).then(text("Done."))).await?;
    let toolbox = Arc::new(Toolbox::start(&ToolsConfig::default(), Vec::new())?);
    let worker = Worker::start(setup::settings(database_url), Agents::new(models, toolbox)).await?;

    let service = NewSession {
        tenant: TENANT.to_owned(),
        name: "service".to_owned(),
        ..NewSession::default()
    };
    let session = store.create_session(&service).await?.id;
    let hub = Hub::start(store.clone(), database_url.to_owned());
    let mut events = hub.subscribe(session, 0);

    store.define(session, &setup::agent("clerk", &[])?, Redefinition::Refuse).await?;
    let mut new = setup::task("clerk", "Tidy up.");
    new.task.traceparent =
        Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned());
    store.delegate(session, &new, &Operator::default(), None).await?;
    let delegations = vec![next(&store, &mut events).await?, next(&store, &mut events).await?];
    worker.drain(Duration::from_secs(5)).await;
    Ok(delegations)
}

#[tokio::main]
async fn main() -> setup::Result<()> {
    for delegation in run(&std::env::var("DATABASE_URL")?).await? {
        println!("{delegation:?}");
    }
    Ok(())
}
