//! Reloads agents and skills while the program runs. Files are polled, not watched: polling works
//! on every file system and misses no change.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use tokio::sync::watch::Sender;

use super::agents::Agents;
use super::files::Stamps;
use super::load::{Loaded, Origin};
use super::problem::Problem;
use super::{Config, Location};

/// How often files are polled. A change counts when two polls in a row find the same stamps.
pub const INTERVAL: Duration = Duration::from_secs(2);

/// Follows the agents of a running config. New tasks use the changed agents. An agent that becomes
/// invalid keeps its last valid version.
pub struct AgentReloader {
    origin: Origin,
    running: Config,
    /// The stamps of the files that were last loaded.
    loaded: Option<Stamps>,
    /// The stamps of the last poll, if they differ: the files may still be being written.
    changing: Option<Stamps>,
    logged: BTreeSet<Problem>,
}

impl AgentReloader {
    pub fn new(config: &Config) -> Self {
        Self::with_origin(Origin::from_process(config.path.as_deref(), config.role), config)
    }

    pub(super) fn with_origin(origin: Origin, config: &Config) -> Self {
        let logged = config.warnings.iter().cloned().collect();
        Self { origin, running: config.clone(), loaded: None, changing: None, logged }
    }

    /// Polls, and sends all agents whenever one has changed, until the receiver is dropped.
    pub async fn run(mut self, interval: Duration, agents: Sender<Agents>) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(interval) => {}
                () = agents.closed() => return,
            }
            // A file system may hang, so this must not block the runtime.
            let polled = tokio::task::spawn_blocking(move || {
                let changed = self.poll();
                (self, changed)
            });
            match polled.await {
                Ok((reloader, changed)) => {
                    self = reloader;
                    if let Some(changed) = changed {
                        agents.send_replace(changed);
                    }
                }
                Err(error) => return tracing::error!("reloading of agents stopped: {error}"),
            }
        }
    }

    /// All agents, if one has changed.
    pub fn poll(&mut self) -> Option<Agents> {
        let now = self.origin.stamps(&self.running);
        if self.loaded.as_ref() == Some(&now) {
            self.changing = None;
            return None;
        }
        if self.changing.as_ref() != Some(&now) {
            self.changing = Some(now);
            return None;
        }
        self.changing = None;
        self.loaded = Some(now);
        self.reload()
    }

    fn reload(&mut self) -> Option<Agents> {
        let Loaded { config, errors } = self.origin.load(Some(&self.running));
        self.log(&errors, &config);
        let changed = definitions(&config.agents) != definitions(&self.running.agents);
        if changed {
            tracing::info!("agents reloaded: {}", names(&config.agents));
        }
        // Everything else needs a restart and stays as it was.
        self.running =
            Config { agents: config.agents, source: config.source, ..self.running.clone() };
        changed.then(|| self.running.agents.clone())
    }

    /// Logs each problem once, and again if it disappears and comes back.
    fn log(&mut self, errors: &[Problem], config: &Config) {
        for error in errors.iter().filter(|error| !self.logged.contains(error)) {
            tracing::error!("{error}; keeping the previous version");
        }
        let restart = self.needs_restart(config);
        let warnings = || config.warnings.iter().chain(&restart);
        for warning in warnings().filter(|warning| !self.logged.contains(warning)) {
            tracing::warn!("{warning}");
        }
        self.logged = errors.iter().chain(warnings()).cloned().collect();
    }

    fn needs_restart(&self, config: &Config) -> Vec<Problem> {
        let running = &self.running;
        let changed = [
            (
                "models",
                config.models != running.models || config.model_names != running.model_names,
            ),
            ("tools", config.tools != running.tools),
            ("limits", config.limits != running.limits),
            ("lease", config.lease_seconds != running.lease_seconds),
            ("log_payloads", config.log_payloads != running.log_payloads),
        ];
        let file = self.origin.path.as_deref().unwrap_or(Path::new("")).display().to_string();
        let location = Location::File(file.into());
        let problem = |name: &str| Problem {
            location: location.clone(),
            name: name.to_owned(),
            text: "has changed; restart to apply it".to_owned(),
        };
        changed.into_iter().filter(|(_, changed)| *changed).map(|(name, _)| problem(name)).collect()
    }
}

fn definitions(agents: &Agents) -> Vec<&adjutant_agent::AgentDefinition> {
    agents.values().map(|agent| &agent.definition).collect()
}

fn names(agents: &Agents) -> String {
    let names: Vec<&str> = agents.keys().map(String::as_str).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
