//! A subscriber to the events of a session: it is told of every delegation that starts and completes, each once and in order, and
//! only when it is stored.
//! `adjutant postgres --throwaway -- cargo run --package adjutant --example subscriber`

#[expect(dead_code, reason = "this one hears of ends by itself")]
mod scene;

use std::sync::Arc;
use std::time::Duration;

use adjutant_agent::{EventKind, TaskId};
use adjutant_script::{Script, When, text};
use adjutant_server::{Hub, Subscription};
use adjutant_store::{NewSession, Operator, Redefinition, Store};
use adjutant_worker::tools::{Toolbox, ToolsConfig};
use adjutant_worker::{Agents, Worker};

const TENANT: &str = "me";

/// What happened to a delegation; the task's id is what both ends have in common.
#[derive(Debug, PartialEq, Eq)]
pub enum Delegation {
    Started { correlation: TaskId, agent: String, task: String, traceparent: Option<String> },
    Completed { correlation: TaskId, agent: String, result: Option<String>, error: Option<String> },
}

/// The next thing to tell. What an event says of its task is looked up: the event is stored, so the task is as it says.
async fn next(store: &Store, events: &mut Subscription) -> scene::Result<Delegation> {
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

pub async fn run(database_url: &str) -> scene::Result<Vec<Delegation>> {
    Store::migrate(database_url).await?;
    let store = Store::open(database_url, 4).await?;
    let (_model, models) = scene::models(Script::new().on(When::any()).then(text("Done."))).await?;
    let toolbox = Arc::new(Toolbox::start(&ToolsConfig::default(), Vec::new())?);
    let worker = Worker::start(scene::settings(database_url), Agents::new(models, toolbox)).await?;

    let service = NewSession {
        tenant: TENANT.to_owned(),
        name: "service".to_owned(),
        ..NewSession::default()
    };
    let session = store.create_session(&service).await?.id;
    let hub = Hub::start(store.clone(), database_url.to_owned());
    let mut events = hub.subscribe(session, 0);

    store.define(session, &scene::agent("clerk", &[])?, Redefinition::Refuse).await?;
    let mut new = scene::task("clerk", "Tidy up.");
    new.task.traceparent =
        Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned());
    store.delegate(session, &new, &Operator::default(), None).await?;
    let told = vec![next(&store, &mut events).await?, next(&store, &mut events).await?];
    worker.drain(Duration::from_secs(5)).await;
    Ok(told)
}

#[tokio::main]
async fn main() -> scene::Result<()> {
    for delegation in run(&std::env::var("DATABASE_URL")?).await? {
        println!("{delegation:?}");
    }
    Ok(())
}
