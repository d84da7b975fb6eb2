use std::collections::BTreeMap;
use std::sync::Arc;

use adjutant_agent::prompts;

use crate::model::Model;

/// The alias for every unknown name.
const ANY: &str = "*";

/// The configured models by name, and the aliases of their names.
#[derive(Debug, Default)]
pub struct Models {
    models: BTreeMap<String, Arc<Model>>,
    aliases: BTreeMap<String, String>,
}

impl Models {
    pub fn new(models: impl IntoIterator<Item = Model>, aliases: BTreeMap<String, String>) -> Self {
        let models =
            models.into_iter().map(|model| (model.name().to_owned(), Arc::new(model))).collect();
        Self { models, aliases }
    }

    /// Finds a model by its name, else by an alias, else by the alias of all names.
    pub fn get(&self, name: &str) -> Option<Arc<Model>> {
        let alias = || self.aliases.get(name).or_else(|| self.aliases.get(ANY));
        self.models.get(name).or_else(|| self.models.get(alias()?)).cloned()
    }

    /// Whether some model is only for some tenants.
    pub(crate) fn are_limited(&self) -> bool {
        self.models.values().any(|model| model.tenants().is_some())
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
