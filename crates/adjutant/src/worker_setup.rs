//! Builds a worker from the config: its models, tools and agents.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use adjutant_agent::AgentDefinition;
use adjutant_store::{Error, Publisher as PublishingProcess, Store, warn_unless_outage};
use adjutant_worker::model::{Model, http_client};
use adjutant_worker::tools::Toolbox;
use adjutant_worker::{Agents, Delegating, Models};
use anyhow::Context;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::task::AbortOnDropHandle;

use crate::config::Config;
use crate::config::agents::Agents as AgentFiles;
use crate::config::reload::{AgentReloader, INTERVAL};

/// How long a worker that has started waits for MCP servers before it publishes its tools and says
/// that it is ready. It claims tasks meanwhile. Slower servers are added later.
const MCP_START_WAIT: Duration = Duration::from_secs(5);

/// The database forgets tools that have not been published for a day.
const REPUBLISH_INTERVAL: Duration = Duration::from_secs(6 * 3600);

/// How often a process reports that it still publishes its agents. Others count it as gone after
/// 2 minutes.
const KEEP_INTERVAL: Duration = Duration::from_secs(15);

/// How long the end of the publishing may take when a process stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// The pause after publishing has failed.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// The models and tools of a worker process.
pub struct WorkerSetup {
    models: Models,
    toolbox: Arc<Toolbox>,
}

impl WorkerSetup {
    /// Reads the API keys and begins to connect to the MCP servers.
    pub fn from_config(config: &Config) -> anyhow::Result<Self> {
        let client = http_client().context("cannot create an HTTP client")?;
        let models = config
            .models
            .iter()
            .map(|(name, model)| Model::new(name, model, client.clone()))
            .collect::<Result<Vec<_>, _>>()?;
        let toolbox = Arc::new(Toolbox::start(&config.tools, Vec::new())?);
        Ok(Self { models: Models::new(models, config.model_names.aliases.clone()), toolbox })
    }

    /// The handler of the worker, and the publisher of its agents and tools.
    pub fn into_parts(self, config: &Config, process: &str) -> (Agents, Publisher) {
        let publisher = Publisher {
            toolbox: Some(self.toolbox.clone()),
            prices: self.models.prices(),
            ..Publisher::without_tools(config, process)
        };
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
    /// The names of this worker's models, and which of them have prices.
    prices: BTreeMap<String, bool>,
    process: PublishingProcess,
    /// Whether this process has published agents, and so has some to take back.
    has_published: AtomicBool,
}

/// The agents of a running process. Dropping it leaves them published until others notice.
pub struct Publishing {
    store: Store,
    process: PublishingProcess,
    following: AbortOnDropHandle<()>,
}

impl Publishing {
    /// To be called when the process stops, so that agents that only it has are gone at once.
    pub async fn stop(self) {
        drop(self.following);
        let stopping = self.store.stop_publishing(&self.process);
        match timeout(STOP_TIMEOUT, stopping).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!("cannot take the agents back: {error}"),
            Err(_) => tracing::debug!("cannot take the agents back in time"),
        }
    }
}

impl Publisher {
    /// For a process that is not a worker and has no tools. `process` is its name for people.
    pub fn without_tools(config: &Config, process: &str) -> Self {
        Self {
            config: config.clone(),
            toolbox: None,
            prices: BTreeMap::new(),
            process: PublishingProcess::new(&config.name, process),
            has_published: AtomicBool::new(false),
        }
    }

    /// Publishes once, and then whenever something changes. When this returns, the agents accept
    /// tasks.
    pub async fn start(self, store: Store) -> Result<Publishing, Error> {
        if let Some(toolbox) = &self.toolbox {
            toolbox.settled(MCP_START_WAIT).await;
        }
        self.publish_tools(&store).await?;
        self.publish_agents(&store, &self.config.agents).await?;
        let process = self.process.clone();
        let following = tokio::spawn(self.publish_changes(store.clone()));
        Ok(Publishing { store, process, following: AbortOnDropHandle::new(following) })
    }

    async fn publish_tools(&self, store: &Store) -> Result<(), Error> {
        match &self.toolbox {
            Some(toolbox) => {
                store.publish_models(&self.prices).await?;
                store.publish_tools(&toolbox.catalogue(&self.config.limits.texts())).await
            }
            None => Ok(()),
        }
    }

    /// A process without agents publishes none, unless it had some and its config lost them.
    async fn publish_agents(&self, store: &Store, agents: &AgentFiles) -> Result<(), Error> {
        if agents.is_empty() && !self.has_published.load(Ordering::Relaxed) {
            return Ok(());
        }
        store.publish_agents_as(&self.process, &definitions(agents)).await?;
        self.has_published.store(true, Ordering::Relaxed);
        Ok(())
    }

    async fn keep(&self, store: &Store, agents: &AgentFiles) -> Result<(), Error> {
        if self.has_published.load(Ordering::Relaxed)
            && !store.keep_published(&self.process).await?
        {
            self.publish_agents(store, agents).await?;
        }
        Ok(())
    }

    async fn publish_changes(self, store: Store) {
        let (sender, mut agents) = watch::channel(self.config.agents.clone());
        let mut tools = self.toolbox.as_ref().map(|toolbox| toolbox.watch());
        let watching = AgentReloader::new(&self.config).run(INTERVAL, sender);
        let mut kept = interval(KEEP_INTERVAL);
        kept.set_missed_tick_behavior(MissedTickBehavior::Delay);
        kept.reset();
        let mut republished = interval(REPUBLISH_INTERVAL);
        republished.reset();
        let publishing = async {
            loop {
                let published = tokio::select! {
                    () = changed(&mut tools) => self.publish_tools(&store).await,
                    Ok(()) = agents.changed() => {
                        let now = agents.borrow_and_update().clone();
                        self.publish_agents(&store, &now).await
                    }
                    _ = kept.tick() => {
                        let now = agents.borrow().clone();
                        self.keep(&store, &now).await
                    }
                    _ = republished.tick() => self.publish_tools(&store).await,
                };
                match published {
                    Ok(()) => {}
                    // Another try would be refused too, until the agents change again.
                    Err(Error::Refused(refusal)) => {
                        tracing::error!(
                            "the changed agents are not published: {}",
                            refusal.message
                        );
                    }
                    Err(error) => {
                        warn_unless_outage!(
                            error,
                            "publishing of agents and tools failed, retrying: {error}"
                        );
                        tokio::time::sleep(RETRY_PAUSE).await;
                        tools.iter_mut().for_each(watch::Receiver::mark_changed);
                        agents.mark_changed();
                    }
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
