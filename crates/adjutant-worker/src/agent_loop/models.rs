use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use adjutant_agent::prompts;

use super::call_limiter::CallLimiter;
use crate::model::Model;

/// The alias for every unknown name.
const ANY: &str = "*";

/// The configured models by name, and the aliases of their names.
#[derive(Debug, Default)]
pub struct Models {
    models: BTreeMap<String, LimitedModel>,
    aliases: BTreeMap<String, String>,
}

/// A model with its limits, if it has any.
#[derive(Debug, Clone)]
pub(super) struct LimitedModel {
    pub(super) model: Arc<Model>,
    pub(super) limiter: Option<Arc<CallLimiter>>,
}

impl Models {
    pub fn new(models: impl IntoIterator<Item = Model>, aliases: BTreeMap<String, String>) -> Self {
        let limited = |model: Model| {
            let limiter = CallLimiter::of(&model).map(Arc::new);
            (model.name().to_owned(), LimitedModel { model: Arc::new(model), limiter })
        };
        Self { models: models.into_iter().map(limited).collect(), aliases }
    }

    /// Finds a model by its name, else by an alias, else by the alias of all names.
    pub fn get(&self, name: &str) -> Option<Arc<Model>> {
        self.limited(name).map(|limited| limited.model.clone())
    }

    fn limited(&self, name: &str) -> Option<&LimitedModel> {
        let alias = || self.aliases.get(name).or_else(|| self.aliases.get(ANY));
        self.models.get(name).or_else(|| self.models.get(alias()?))
    }

    /// A model, its fallbacks, and theirs, in the order in which they are tried.
    pub(super) fn chain(&self, name: &str) -> Option<ModelChain> {
        let mut models = Vec::new();
        self.add_to_chain(name, &mut models);
        (!models.is_empty()).then_some(ModelChain { models, current: 0, opens_in: None })
    }

    fn add_to_chain(&self, name: &str, models: &mut Vec<LimitedModel>) {
        let Some(found) = self.limited(name) else { return };
        if models.iter().any(|known| known.model.name() == found.model.name()) {
            return;
        }
        models.push(found.clone());
        for fallback in found.model.fallback() {
            self.add_to_chain(fallback, models);
        }
    }

    /// Whether some model is only for some tenants.
    pub(crate) fn are_limited(&self) -> bool {
        self.models.values().any(|limited| limited.model.tenants().is_some())
    }

    /// The error of a task whose model this worker does not have.
    pub(crate) fn unknown(&self, name: &str) -> String {
        let known: Vec<&str> = self.models.keys().map(String::as_str).collect();
        prompts::model_error(if known.is_empty() {
            format!("this worker has no models in its config, but the agent needs {name:?}")
        } else {
            format!("this worker's config has no model {name:?}; it has: {}", known.join(", "))
        })
    }
}

/// The models that a call may go to. Each call starts at the first one.
#[derive(Debug)]
pub(super) struct ModelChain {
    models: Vec<LimitedModel>,
    current: usize,
    /// The shortest time until one of the tried models opens.
    opens_in: Option<Duration>,
}

/// What follows when a model of a chain does not answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Following {
    /// The next model is the current one now.
    TryNext,
    /// The first model is the current one again, after this time.
    Wait(Duration),
    /// No model is left.
    GiveUp,
}

impl ModelChain {
    /// Without the models that a task may not use.
    pub(super) fn of(self, may_use: impl Fn(&Model) -> bool) -> Self {
        let models = self.models.into_iter().filter(|limited| may_use(&limited.model)).collect();
        Self { models, ..self }
    }

    pub(super) fn current(&self) -> &LimitedModel {
        &self.models[self.current]
    }

    pub(super) fn is_at_start(&self) -> bool {
        self.current == 0
    }

    /// Whether there is a model after the current one.
    pub(super) fn has_next(&self) -> bool {
        self.current + 1 < self.models.len()
    }

    pub(super) fn len(&self) -> u32 {
        u32::try_from(self.models.len()).unwrap_or(u32::MAX)
    }

    /// How long the gate of the current model may be closed; none if there is no other model.
    pub(super) fn patience(&self) -> Option<Duration> {
        (self.models.len() > 1).then(|| self.current().model.fallback_after())
    }

    pub(super) fn restart(&mut self) {
        self.current = 0;
        self.opens_in = None;
    }

    /// Leaves the current model, which is closed for this time, or which failed all tries.
    pub(super) fn leave_current(&mut self, closed_for: Option<Duration>) -> Following {
        self.opens_in = self.opens_in.into_iter().chain(closed_for).min();
        if self.has_next() {
            self.current += 1;
            return Following::TryNext;
        }
        match self.opens_in {
            Some(wait) => {
                self.restart();
                Following::Wait(wait)
            }
            None => Following::GiveUp,
        }
    }
}
