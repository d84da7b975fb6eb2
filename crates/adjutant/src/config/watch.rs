//! Agents that change while the program runs. Files are looked at, not subscribed to: that works on every file system, and
//! nothing is lost.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use tokio::sync::watch::Sender;

use super::Config;
use super::agents::Agents;
use super::files::Stamps;
use super::load::{Loaded, Origin};
use super::problem::Problem;

/// How often files are looked at. A change counts when two looks in a row see the same.
pub const EVERY: Duration = Duration::from_secs(2);

/// Follows the agents of a running config. What has become wrong keeps its last good version; new tasks get what is new.
pub struct Watch {
    origin: Origin,
    running: Config,
    /// What the files looked like when they were last read.
    read: Option<Stamps>,
    /// What they looked like at the last look, if that was something else: they may still be being written.
    changing: Option<Stamps>,
    said: BTreeSet<Problem>,
}

impl Watch {
    pub fn new(config: &Config) -> Self {
        Self::of(Origin::of_process(config.path.as_deref()), config)
    }

    pub(super) fn of(origin: Origin, config: &Config) -> Self {
        let said = config.warnings.iter().cloned().collect();
        Self { origin, running: config.clone(), read: None, changing: None, said }
    }

    /// Looks every so often, and sends all agents whenever one of them changed, until nobody listens.
    pub async fn run(mut self, every: Duration, agents: Sender<Agents>) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(every) => {}
                () = agents.closed() => return,
            }
            // A file system may hang; what else runs here must not.
            let looked = tokio::task::spawn_blocking(move || {
                let changed = self.look();
                (self, changed)
            });
            match looked.await {
                Ok((watch, changed)) => {
                    self = watch;
                    if let Some(changed) = changed {
                        agents.send_replace(changed);
                    }
                }
                Err(error) => return tracing::error!("agents are not followed any more: {error}"),
            }
        }
    }

    /// All agents, if one has changed since the last look that said so.
    pub fn look(&mut self) -> Option<Agents> {
        let now = self.origin.stamps(&self.running);
        if self.read.as_ref() == Some(&now) {
            self.changing = None;
            return None;
        }
        if self.changing.as_ref() != Some(&now) {
            self.changing = Some(now);
            return None;
        }
        self.changing = None;
        self.read = Some(now);
        self.read_again()
    }

    fn read_again(&mut self) -> Option<Agents> {
        let Loaded { config, errors } = self.origin.load(Some(&self.running));
        self.say(&errors, &config);
        let changed = definitions(&config.agents) != definitions(&self.running.agents);
        if changed {
            tracing::info!("agents now: {}", names(&config.agents));
        }
        // Of what needs a restart, what was there at the start stays.
        self.running = Config { agents: config.agents, written: config.written, ..self.running.clone() };
        changed.then(|| self.running.agents.clone())
    }

    /// Each problem once, until it is gone.
    fn say(&mut self, errors: &[Problem], config: &Config) {
        for error in errors.iter().filter(|error| !self.said.contains(error)) {
            tracing::error!("{error}; what was there before stays");
        }
        for warning in config.warnings.iter().filter(|warning| !self.said.contains(warning)) {
            tracing::warn!("{warning}");
        }
        let mut said: BTreeSet<Problem> = errors.iter().chain(&config.warnings).cloned().collect();
        for problem in self.needs_restart(config) {
            if !self.said.contains(&problem) {
                tracing::warn!("{problem}");
            }
            said.insert(problem);
        }
        self.said = said;
    }

    fn needs_restart(&self, config: &Config) -> Vec<Problem> {
        let running = &self.running;
        let changed = [
            ("models", config.models != running.models || config.model_names != running.model_names),
            ("tools", config.tools != running.tools),
            ("limits", config.limits != running.limits),
            ("lease", config.lease_seconds != running.lease_seconds),
            ("log_payloads", config.log_payloads != running.log_payloads),
        ];
        let file = self.origin.path.as_deref().unwrap_or(Path::new("")).display().to_string();
        let place = super::Place::WholeFile(file.into());
        let problem = |name: &str| Problem {
            place: place.clone(),
            name: name.to_owned(),
            text: "has changed, which only a restart makes true".to_owned(),
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
