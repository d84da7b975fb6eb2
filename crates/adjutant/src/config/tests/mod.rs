//! Whole configs, loaded from files in a temporary folder.

mod dialects;
mod environment;
mod errors;
mod example;
mod folders;
mod reload;
mod skills;

use std::fs;

use tempfile::TempDir;

use super::Role;
use super::environment::Environment;
use super::load::{Loaded, Origin};
use super::problem::Problem;

/// A folder with a config in it.
struct ConfigDir {
    dir: TempDir,
    environment: Environment,
}

impl ConfigDir {
    fn new(files: &[(&str, &str)]) -> Self {
        let dir = Self { dir: TempDir::new().unwrap(), environment: Environment::default() };
        files.iter().for_each(|(name, text)| dir.write(name, text));
        dir
    }

    fn with_variables(mut self, variables: &[(&str, &str)]) -> Self {
        self.environment.variables = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        self.environment.flags =
            vec!["ADJUTANT_POOL".to_owned(), "ADJUTANT_LEASE_SECONDS".to_owned()];
        self
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn origin(&self) -> Origin {
        Origin {
            path: Some(self.dir.path().join("adjutant.toml")),
            environment: self.environment.clone(),
            role: Role::Worker,
        }
    }

    fn load(&self) -> Loaded {
        self.origin().load(None)
    }

    /// The problems as text, without the folder.
    fn texts(&self, problems: &[Problem]) -> Vec<String> {
        let folder = format!("{}/", self.dir.path().display());
        problems.iter().map(|problem| problem.to_string().replace(&folder, "")).collect()
    }

    fn errors(&self) -> Vec<String> {
        self.texts(&self.load().errors)
    }

    fn warnings(&self) -> Vec<String> {
        self.texts(&self.load().config.warnings)
    }
}

/// A model, which agents need.
const MODEL: &str = "[models.main]\nwire = \"openai\"\n";
