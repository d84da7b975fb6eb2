//! Hooks that run at the start and the end of every attempt. One of them returns an error, which
//! does not affect the task. `adjutant postgres --throwaway -- cargo run --package adjutant
//! --example hooks`

mod setup;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use adjutant_script::{Script, When, text};
use adjutant_server::Hub;
use adjutant_store::{NewSession, Operator, Redefinition, Store};
use adjutant_worker::tools::{Toolbox, ToolsConfig};
use adjutant_worker::{Agents, AttemptInfo, Hooked, Hooks, Stopped, Worker};

/// Records the attempts.
#[derive(Clone, Default)]
pub struct AttemptLog(Arc<Mutex<Vec<String>>>);

impl AttemptLog {
    fn write(&self, line: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }

    fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Hooks for AttemptLog {
    async fn started(&self, attempt: &AttemptInfo) -> Result<(), String> {
        self.write(format!(
            "{} starts {}, attempt {}",
            attempt.agent, attempt.number, attempt.attempt
        ));
        Ok(())
    }

    async fn stopped(&self, attempt: &AttemptInfo, how: Stopped) -> Result<(), String> {
        self.write(format!("{} stops {}: {how:?}", attempt.agent, attempt.number));
        Err("the log is full".to_owned())
    }
}

pub async fn run(database_url: &str) -> setup::Result<Vec<String>> {
    Store::migrate(database_url).await?;
    let store = Store::open(database_url, 4).await?;
    let (_model, models) = setup::models(Script::new().on(When::any()).then(text("Done."))).await?;
    let toolbox = Arc::new(Toolbox::start(&ToolsConfig::default(), Vec::new())?);
    let log = AttemptLog::default();
    let handler = Hooked::new(Agents::new(models, toolbox), log.clone());
    let worker = Worker::start(setup::settings(database_url), handler).await?;

    let service =
        NewSession { tenant: "me".to_owned(), name: "service".to_owned(), ..NewSession::default() };
    let session = store.create_session(&service).await?.id;
    store.define(session, &setup::agent("clerk", &[])?, Redefinition::Refuse).await?;
    let new = setup::task("clerk", "Tidy up.");
    let spawned = store.delegate(session, &new, &Operator::default(), None).await?;
    let hub = Hub::start(store.clone(), database_url.to_owned());
    setup::outcome(&store, &hub, session, spawned.number).await?;
    worker.drain(Duration::from_secs(5)).await;
    Ok(log.lines())
}

#[tokio::main]
async fn main() -> setup::Result<()> {
    for line in run(&std::env::var("DATABASE_URL")?).await? {
        println!("{line}");
    }
    Ok(())
}
