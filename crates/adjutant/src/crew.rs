//! What a worker of the config is made of: its models, its tools, its agents.

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
use crate::config::watch::{EVERY, Watch};

/// How long a start waits for MCP servers; those that take longer come later.
const PATIENCE: Duration = Duration::from_secs(5);

/// Tools are told of again before a day is over, or they count as gone.
const REPEAT: Duration = Duration::from_secs(6 * 3600);

/// After a failed try to publish.
const AGAIN: Duration = Duration::from_secs(5);

/// The models and tools of this process.
pub struct Crew {
    models: Models,
    toolbox: Arc<Toolbox>,
}

impl Crew {
    /// Reads the keys, and connects to the MCP servers.
    pub async fn of(config: &Config) -> anyhow::Result<Self> {
        let client = http_client().context("cannot make an HTTP client")?;
        let models = config
            .models
            .iter()
            .map(|(name, model)| Model::new(name, model, client.clone()))
            .collect::<Result<Vec<_>, _>>()?;
        let toolbox = Arc::new(Toolbox::start(&config.tools, Vec::new())?);
        toolbox.settled(PATIENCE).await;
        Ok(Self { models: Models::new(models, config.model_names.aliases.clone()), toolbox })
    }

    /// The handler of a worker, and what tells everyone about it for as long as it is polled.
    pub fn into_parts(self, config: &Config) -> (Agents, Publication) {
        let publication = Publication { config: config.clone(), toolbox: Some(self.toolbox.clone()) };
        let delegating = Delegating {
            operator: config.operator(),
            max_depth: config.limits.max_depth,
            xzatoma: config.dialects.xzatoma.clone(),
        };
        (Agents::new(self.models, self.toolbox).delegating(delegating), publication)
    }
}

/// Tells the database which agents the config has and which tools this worker has, now and whenever that changes.
pub struct Publication {
    config: Config,
    /// None of a process that is no worker.
    toolbox: Option<Arc<Toolbox>>,
}

impl Publication {
    /// Of a process that is no worker: it has the config's agents to tell of, and no tools.
    pub fn of_agents(config: &Config) -> Self {
        Self { config: config.clone(), toolbox: None }
    }

    /// Once: after this, the agents can be given tasks.
    pub async fn begin(&self, store: &Store) -> Result<(), Error> {
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

    /// A process without a config has nothing to say about agents: it must not take away those of others.
    fn has_agents(&self) -> bool {
        self.config.path.is_some() || !self.config.agents.is_empty()
    }

    /// From then on.
    pub async fn follow(self, store: Store) {
        let (sender, mut agents) = watch::channel(self.config.agents.clone());
        let mut tools = self.toolbox.as_ref().map(|toolbox| toolbox.watch());
        let watching = Watch::new(&self.config).run(EVERY, sender);
        let publishing = async {
            loop {
                let published = tokio::select! {
                    () = changed(&mut tools) => self.publish_tools(&store).await,
                    Ok(()) = agents.changed(), if self.has_agents() => {
                        let now = definitions(&agents.borrow_and_update());
                        store.publish_agents(&now).await
                    }
                    () = tokio::time::sleep(REPEAT) => self.publish_tools(&store).await,
                };
                if let Err(error) = published {
                    tracing::warn!("cannot tell of changed agents or tools, trying again: {error}");
                    tokio::time::sleep(AGAIN).await;
                    tools.iter_mut().for_each(watch::Receiver::mark_changed);
                    agents.mark_changed();
                }
            }
        };
        tokio::join!(watching, publishing);
    }
}

/// Never, if there is nothing that could change.
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
