//! Whole configs, from files in a folder of their own to what is understood.

mod dialects;
mod environment;
mod errors;
mod example;
mod folders;
mod skills;
mod watching;

use std::fs;

use tempfile::TempDir;

use super::environment::Environment;
use super::load::{Loaded, Origin};
use super::problem::Problem;

/// A folder with a config in it.
struct Desk {
    dir: TempDir,
    environment: Environment,
}

impl Desk {
    fn new(files: &[(&str, &str)]) -> Self {
        let desk = Self { dir: TempDir::new().unwrap(), environment: Environment::default() };
        files.iter().for_each(|(name, text)| desk.write(name, text));
        desk
    }

    fn with_variables(mut self, variables: &[(&str, &str)]) -> Self {
        self.environment.variables =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        self.environment.flags = vec!["ADJUTANT_POOL".to_owned(), "ADJUTANT_LEASE_SECONDS".to_owned()];
        self
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn origin(&self) -> Origin {
        Origin { path: Some(self.dir.path().join("adjutant.toml")), environment: self.environment.clone() }
    }

    fn load(&self) -> Loaded {
        self.origin().load(None)
    }

    /// As people read them, without the folder.
    fn said(&self, problems: &[Problem]) -> Vec<String> {
        let folder = format!("{}/", self.dir.path().display());
        problems.iter().map(|problem| problem.to_string().replace(&folder, "")).collect()
    }

    fn errors(&self) -> Vec<String> {
        self.said(&self.load().errors)
    }

    fn warnings(&self) -> Vec<String> {
        self.said(&self.load().config.warnings)
    }
}

/// A model, which agents need.
const MODEL: &str = "[models.main]\nwire = \"openai\"\n";
