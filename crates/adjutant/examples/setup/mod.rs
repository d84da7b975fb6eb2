//! What the examples share: an agent, and a scripted model in place of a real one.

use std::collections::BTreeMap;

use adjutant_agent::{
    AgentDefinition, AgentDraft, DefinitionLimits, Outcome, SessionId, TaskNumber,
};
use adjutant_script::{Script, ScriptServer};
use adjutant_server::Hub;
use adjutant_store::{NewDelegation, NewTask, Store};
use adjutant_worker::model::{Model, ModelConfig, http_client};
use adjutant_worker::{Models, Settings};
use serde_json::json;

/// Any error will do for an example.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// A model called `main` that answers from a script. A real model needs a base URL and an API key
/// in its config.
pub async fn models(script: Script) -> Result<(ScriptServer, Models)> {
    let server = ScriptServer::start(script).await?;
    let config: ModelConfig =
        serde_json::from_value(json!({"wire": "openai", "base_url": server.openai_base_url()}))?;
    // All models of a process should share one client, so that they share its connections.
    let model = Model::new("main", &config, http_client()?)?;
    Ok((server, Models::new([model], BTreeMap::new())))
}

pub fn agent(name: &str, tools: &[&str]) -> Result<AgentDefinition> {
    let draft = AgentDraft {
        name: name.to_owned(),
        description: Some("Does office work".to_owned()),
        system_prompt: Some("You are a clerk.".to_owned()),
        tools: Some(tools.iter().map(|tool| (*tool).to_owned()).collect()),
        model: Some("main".to_owned()),
        ..AgentDraft::default()
    };
    Ok(draft.check(&DefinitionLimits::default())?)
}

pub fn settings(database_url: &str) -> Settings {
    Settings::new(database_url, format!("example/{}", std::process::id()))
}

pub fn task(agent: &str, assignment: &str) -> NewDelegation {
    let task = NewTask {
        agent: agent.to_owned(),
        assignment: assignment.to_owned(),
        ..NewTask::default()
    };
    NewDelegation { task, ..NewDelegation::default() }
}

/// Waits until a task has ended, and collects it.
pub async fn outcome(
    store: &Store,
    hub: &Hub,
    session: SessionId,
    task: TaskNumber,
) -> Result<Outcome> {
    let mut events = hub.subscribe(session, 0);
    loop {
        let event = events.next().await?;
        if event.task_number == task && event.kind.is_terminal() {
            return Ok(store.collect(session, task, None).await?.outcome);
        }
    }
}
