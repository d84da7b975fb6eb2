//! `adjutant up`: everything that there is, in one process.

use std::path::PathBuf;
use std::process::ExitCode;

use adjutant_store::Store;
use anyhow::Context;
use clap::Args;

use crate::commands::serve::{Bound, Listen, Serving};
use crate::commands::work::{self, Work, Working};
use crate::config::Config;
use crate::logs;
use crate::output::print_line;
use crate::private_postgres::{DATABASE, Place, PrivatePostgres, default_data_dir};
use crate::signals::{Signals, interruptible};
use crate::telemetry::{self, Payloads};

/// So that it is the cap that limits a single process.
const CONCURRENCY: u16 = 100;

/// Run everything in one process, on a private PostgreSQL
///
/// Starts the database, brings its schema up to date, serves HTTP, and runs a worker with the models, tools and agents of the
/// config until Ctrl-C, which drains both first.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  adjutant up                                  data in ~/.local/share/adjutant
  adjutant up --data-dir ./data                data in this folder
  adjutant up --config team.toml               with these models, agents and tools
  adjutant up --listen 127.0.0.1:0             HTTP on a free port, which it prints
  adjutant up --database-url postgres://...    on a database that is there already
")]
pub struct Arguments {
    /// Where the data is [default: $XDG_DATA_HOME/adjutant, else ~/.local/share/adjutant]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    /// Use this database instead of a private one
    #[arg(long, env = "DATABASE_URL", value_name = "URL", hide_env_values = true)]
    database_url: Option<String>,

    #[command(flatten)]
    listen: Listen,

    #[command(flatten)]
    work: Work,

    #[command(flatten)]
    logs: logs::Logs,

    /// Print one JSON object when ready: url, database_url (of a private database), schema, cap, worker
    #[arg(long)]
    json: bool,
}

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let config = arguments.work.config()?;
    let _telemetry = telemetry::begin(&arguments.logs, Payloads::of(&config))?;
    config.log_warnings();
    // Before anything is started that would have to be stopped again.
    let bound = arguments.listen.bind(&config).await?;
    let given = arguments.database_url.clone().filter(|url| !url.is_empty());
    let place = match (&given, arguments.data_dir.clone()) {
        (Some(url), None) => return run_on(url, None, bound, &arguments, &config).await,
        (Some(_), Some(dir)) => {
            eprintln!("adjutant: --data-dir is given, so --database-url or DATABASE_URL is ignored");
            dir
        }
        (None, Some(dir)) => dir,
        (None, None) => default_data_dir()?,
    };
    let mut postgres = interruptible(PrivatePostgres::start(Place::Kept(place))).await?;
    let url = postgres.url(DATABASE);
    let code = run_on(&url, Some(&mut postgres), bound, &arguments, &config).await?;
    postgres.stop().await?;
    Ok(code)
}

async fn run_on(
    url: &str,
    mut private: Option<&mut PrivatePostgres>,
    bound: Bound,
    arguments: &Arguments,
    config: &Config,
) -> anyhow::Result<ExitCode> {
    // Before the line is printed: who reads it may stop us at once.
    let mut signals = Signals::listen()?;
    let mut all = Everything::start(url, bound, &arguments.work, config).await?;
    let Everything { url: http, schema, cap, .. } = &all;
    if let Some(postgres) = &private {
        postgres.tell_url(http)?;
    }
    // A URL that was given is not shown: it may have a password in it, and this line goes to logs.
    let shown = private.as_ref().map(|_| url);
    print_line(&if arguments.json {
        let worker = all.working.worker.id();
        serde_json::json!({"url": http, "database_url": shown, "schema": schema, "cap": cap, "worker": worker})
            .to_string()
    } else {
        let look = shown.map(|url| format!(" Look inside with: psql '{url}'")).unwrap_or_default();
        let agents: Vec<&str> = config.agents.keys().map(String::as_str).collect();
        let agents =
            if agents.is_empty() { "no agents".to_owned() } else { format!("agents {}", agents.join(", ")) };
        format!(
            "Ready at {http}: schema {schema}, cap {cap}, a worker, {agents}. Ctrl-C stops it.{look}\n{}",
            next(http)
        )
    })?;
    let server_stopped = async {
        match &mut private {
            Some(postgres) => postgres.stopped().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        error = server_stopped => return Err(error),
        error = all.ended() => return Err(error),
        _ = signals.next() => {}
    }
    let draining = work::drain(all.working.worker, arguments.work.grace(), &mut signals);
    let (code, ()) = tokio::try_join!(draining, all.serving.drain())?;
    Ok(code)
}

/// A worker and a server, on a database whose schema is up to date.
pub struct Everything {
    pub working: Working,
    pub serving: Serving,
    /// Where it serves.
    pub url: String,
    schema: i64,
    cap: i64,
}

impl Everything {
    pub async fn start(database: &str, bound: Bound, work: &Work, config: &Config) -> anyhow::Result<Self> {
        let (schema, cap) = prepare(database, config).await?;
        let working = work.start(database, CONCURRENCY, config).await?;
        let url = bound.url();
        let serving = bound.serve(database, config).await?;
        Ok(Self { working, serving, url, schema, cap })
    }

    /// Returns when a part of it has ended by itself, which it should not.
    pub async fn ended(&mut self) -> anyhow::Error {
        tokio::select! {
            error = self.serving.ended() => error,
            why = self.working.worker.stopped() => anyhow::anyhow!("the worker ended by itself: {why}"),
        }
    }
}

/// Where to go next.
fn next(url: &str) -> String {
    format!(
        "Try it:  curl -s {url}/v1/sessions -H 'Content-Type: application/json' -d '{{\"session_id\": \"first\"}}'\n\
         Look:    {url}/ in a browser\n\
         Then:    {url}/openapi.json says what there is; GET {url}/v1/tools has the tools for your model"
    )
}

/// The schema's version, and the cap.
async fn prepare(url: &str, config: &Config) -> anyhow::Result<(i64, i64)> {
    let migrated = Store::migrate(url).await.context("cannot migrate")?;
    let store = Store::open(url, 2).await?;
    store.tidy().await?;
    // At the first start; later it is changed with `adjutant limits`.
    if migrated.from == 0 {
        store.set_cap(config.limits.cap).await?;
    }
    let cap = store.slots().await?.cap;
    store.close().await;
    Ok((migrated.to, cap))
}
