//! `adjutant up`: everything that there is, in one process.

use std::path::PathBuf;
use std::process::ExitCode;

use adjutant_store::Store;
use anyhow::Context;
use clap::Args;

use crate::output::print_line;
use crate::private_postgres::{DATABASE, Place, PrivatePostgres, default_data_dir};
use crate::signals::{Signals, interruptible};

/// Run everything in one process, on a private PostgreSQL
///
/// This release stores tasks; it has no workers and no HTTP yet. `up` starts the database, brings its schema up to date,
/// and keeps it running until Ctrl-C.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  adjutant up                                  data in ~/.local/share/adjutant
  adjutant up --data-dir ./data                data in this folder
  adjutant up --database-url postgres://...    on a database that is there already
")]
pub struct Arguments {
    /// Where the data is [default: $XDG_DATA_HOME/adjutant, else ~/.local/share/adjutant]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    /// Use this database instead of a private one
    #[arg(long, env = "DATABASE_URL", value_name = "URL", hide_env_values = true)]
    database_url: Option<String>,

    /// Print one JSON object when ready: database_url (of a private database), schema, cap
    #[arg(long)]
    json: bool,
}

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let given = arguments.database_url.filter(|url| !url.is_empty());
    if let Some(url) = &given
        && arguments.data_dir.is_none()
    {
        let mut signals = Signals::listen()?;
        let ready = open(url).await?;
        // Not the URL: it may have a password in it, and this line goes to logs.
        print_line(&if arguments.json { ready.json(None) } else { format!("{ready} Ctrl-C stops it.") })?;
        signals.next().await;
        return Ok(ExitCode::SUCCESS);
    }
    let place = match arguments.data_dir {
        Some(dir) => {
            if given.is_some() {
                eprintln!("adjutant: --data-dir is given, so --database-url or DATABASE_URL is ignored");
            }
            dir
        }
        None => default_data_dir()?,
    };
    let mut postgres = interruptible(PrivatePostgres::start(Place::Kept(place))).await?;
    // Before the line is printed: who reads it may stop us at once.
    let mut signals = Signals::listen()?;
    let url = postgres.url(DATABASE);
    let ready = open(&url).await?;
    print_line(&if arguments.json {
        ready.json(Some(&url))
    } else {
        format!("{ready} Ctrl-C stops it. Look inside with: psql '{url}'")
    })?;
    tokio::select! {
        error = postgres.stopped() => return Err(error),
        _ = signals.next() => {}
    }
    postgres.stop().await?;
    Ok(ExitCode::SUCCESS)
}

struct Ready {
    schema: i64,
    cap: i64,
}

impl Ready {
    fn json(&self, url: Option<&str>) -> String {
        let Self { schema, cap } = self;
        serde_json::json!({"database_url": url, "schema": schema, "cap": cap}).to_string()
    }
}

impl std::fmt::Display for Ready {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ready: schema {}, cap {}.", self.schema, self.cap)
    }
}

async fn open(url: &str) -> anyhow::Result<Ready> {
    let schema = Store::migrate(url).await.context("cannot migrate")?.to;
    let store = Store::open(url, 2).await?;
    store.tidy().await?;
    let cap = store.slots().await?.cap;
    store.close().await;
    Ok(Ready { schema, cap })
}
