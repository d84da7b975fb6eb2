//! The arguments of commands that work on the database directly.

use std::path::PathBuf;

use clap::Args;

use crate::private_postgres::running_url;

#[derive(Debug, Args)]
pub struct DatabaseArgs {
    /// The database [default: the one of the `adjutant up` that runs on the data directory]
    #[arg(long, env = "DATABASE_URL", value_name = "URL", hide_env_values = true)]
    database_url: Option<String>,

    /// The data directory of the running `adjutant up`
    #[arg(long, value_name = "DIR", conflicts_with = "database_url")]
    data_dir: Option<PathBuf>,
}

impl DatabaseArgs {
    pub fn url(&self) -> anyhow::Result<String> {
        match self.database_url.as_ref().filter(|url| !url.is_empty()) {
            Some(url) => Ok(url.clone()),
            None => running_url(self.data_dir.clone()),
        }
    }

    /// Whether a database was given explicitly.
    pub fn is_given(&self) -> bool {
        self.data_dir.is_some() || self.database_url.as_ref().is_some_and(|url| !url.is_empty())
    }
}
