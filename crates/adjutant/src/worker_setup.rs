//! Builds a worker from the config: its models, tools and agents.

use std::sync::Arc;
use std::time::Duration;

use adjutant_agent::AgentDefinition;
use adjutant_store::{Error, Store};
use adjutant_worker::model::{Model, http_client};
use adjutant_worker::tools::Toolbox;
use adjutant_worker::{Agents, Delegating, Models};
use anyhow::Context;
use tokio::sync::watch;

use crate::config::Config;
use crate::config::agents::Agents as AgentFiles;
use crate::config::reload::{AgentReloader, INTERVAL};

/// How long the start waits for MCP servers. Slower ones are added later.
const MCP_START_WAIT: Duration = Duration::from_secs(5);

/// The database forgets tools that have not been published for a day.
const REPUBLISH_INTERVAL: Duration = Duration::from_secs(6 * 3600);

/// The pause after publishing has failed.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// The models and tools of a worker process.
pub struct WorkerSetup {
    models: Models,
    toolbox: Arc<Toolbox>,
}

impl WorkerSetup {
    /// Reads the API keys and connects to the MCP servers.
    pub async fn from_config(config: &Config) -> anyhow::Result<Self> {
        let client = http_client().context("cannot create an HTTP client")?;
        let models = config
            .models
            .iter()
            .map(|(name, model)| Model::new(name, model, client.clone()))
            .collect::<Result<Vec<_>, _>>()?;
        let toolbox = Arc::new(Toolbox::start(&config.tools, Vec::new())?);
        toolbox.settled(MCP_START_WAIT).await;
        Ok(Self { models: Models::new(models, config.model_names.aliases.clone()), toolbox })
    }

    /// The handler of the worker, and the publisher of its agents and tools.
    pub fn into_parts(self, config: &Config) -> (Agents, Publisher) {
        let publisher = Publisher { config: config.clone(), toolbox: Some(self.toolbox.clone()) };
        let delegating = Delegating {
            operator: config.operator(),
            max_depth: config.limits.max_depth,
            dialects: config.dialects.clone(),
        };
        let agents = Agents::new(self.models, self.toolbox)
            .delegating(delegating)
            .model_patience(config.limits.model_patience());
        (agents, publisher)
    }
}

/// Publishes the agents of the config and the tools of this worker to the database, now and
/// whenever they change.
pub struct Publisher {
    config: Config,
    /// `None` in a process that is not a worker.
    toolbox: Option<Arc<Toolbox>>,
}

impl Publisher {
    /// For a process that is not a worker and has no tools.
    pub fn without_tools(config: &Config) -> Self {
        Self { config: config.clone(), toolbox: None }
    }

    /// Publishes once. From then on the agents accept tasks.
    pub async fn publish(&self, store: &Store) -> Result<(), Error> {
        self.publish_tools(store).await?;
        if self.has_agents() {
            store.publish_agents(&definitions(&self.config.agents)).await?;
        }
        Ok(())
    }

    async fn publish_tools(&self, store: &Store) -> Result<(), Error> {
        match &self.toolbox {
            Some(toolbox) => store.publish_tools(&toolbox.catalogue()).await,
            None => Ok(()),
        }
    }

    /// A process without a config must not remove the agents of others.
    fn has_agents(&self) -> bool {
        self.config.path.is_some() || !self.config.agents.is_empty()
    }

    /// Publishes changes until it is dropped.
    pub async fn publish_changes(self, store: Store) {
        let (sender, mut agents) = watch::channel(self.config.agents.clone());
        let mut tools = self.toolbox.as_ref().map(|toolbox| toolbox.watch());
        let watching = AgentReloader::new(&self.config).run(INTERVAL, sender);
        let publishing = async {
            loop {
                let published = tokio::select! {
                    () = changed(&mut tools) => self.publish_tools(&store).await,
                    Ok(()) = agents.changed(), if self.has_agents() => {
                        let now = definitions(&agents.borrow_and_update());
                        store.publish_agents(&now).await
                    }
                    () = tokio::time::sleep(REPUBLISH_INTERVAL) => self.publish_tools(&store).await,
                };
                if let Err(error) = published {
                    tracing::warn!("publishing of agents and tools failed, retrying: {error}");
                    tokio::time::sleep(RETRY_PAUSE).await;
                    tools.iter_mut().for_each(watch::Receiver::mark_changed);
                    agents.mark_changed();
                }
            }
        };
        tokio::join!(watching, publishing);
    }
}

/// Never returns if nothing can change.
async fn changed<T>(tools: &mut Option<watch::Receiver<T>>) {
    if let Some(tools) = tools
        && tools.changed().await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

fn definitions(agents: &AgentFiles) -> Vec<AgentDefinition> {
    agents.values().map(|agent| agent.definition.clone()).collect()
}
