//! The arguments of commands that work on the database directly.

use std::path::PathBuf;
use std::sync::Arc;

use adjutant_store::{Actor, ActorSource, Store};
use clap::Args;

use crate::commands::server_args::only_one;
use crate::exit::CommandError;
use crate::private_postgres::running_url;
use crate::running;

#[derive(Debug, Default, Args)]
pub struct DatabaseArgs {
    /// The database [default: the one of the `adjutant up` that runs here]
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
            None => running_url(self.running_dir()?),
        }
    }

    /// The data directory of the server that runs here; `None` is the default one.
    fn running_dir(&self) -> anyhow::Result<Option<PathBuf>> {
        if let Some(dir) = &self.data_dir {
            return Ok(Some(dir.clone()));
        }
        let Some(found) = only_one(running::complete(), "--database-url")? else { return Ok(None) };
        match &found.data_dir {
            Some(dir) => Ok(Some(dir.clone())),
            None => {
                let text = format!("{found} uses a database of its own; set --database-url");
                Err(CommandError::usage(text).into())
            }
        }
    }

    /// For a command that has its own `--data-dir`.
    pub fn new(database_url: Option<String>, data_dir: Option<PathBuf>) -> Self {
        Self { database_url, data_dir }
    }

    /// A store for a command that changes something, which is audited under the name of the user of
    /// the operating system.
    pub async fn open_as_user(&self) -> anyhow::Result<Store> {
        let actor = Actor { source: ActorSource::Cli, name: user_name(), ..Actor::default() };
        Ok(Store::open(&self.url()?, 2).await?.acting_for(Arc::new(actor)))
    }

    /// Whether a database was given explicitly.
    pub fn is_given(&self) -> bool {
        self.data_dir.is_some() || self.database_url.as_ref().is_some_and(|url| !url.is_empty())
    }
}

/// The name of the user of this process, or its number if it has no name. It is not taken from the
/// environment, which its user chooses.
fn user_name() -> String {
    let uid = rustix::process::getuid().as_raw().to_string();
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, _, id) = (fields.next()?, fields.next()?, fields.next()?);
        (id == uid).then(|| name.to_owned())
    });
    name.unwrap_or(uid)
}
