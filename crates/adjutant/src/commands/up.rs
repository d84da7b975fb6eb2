//! `adjutant up`: runs everything in one process.

use std::path::PathBuf;
use std::process::ExitCode;

use adjutant_store::Store;
use clap::Args;

use crate::adopt_cap;
use crate::commands::serve::{BoundListener, ListenArgs, RunningServer};
use crate::commands::work::{self, RunningWorker, WorkerArgs};
use crate::config::Config;
use crate::logs;
use crate::output::{note, print_json, print_line};
use crate::private_postgres::{DATABASE, DataLocation, PrivatePostgres, default_data_dir};
use crate::running::Running;
use crate::signals::{Signals, interruptible};
use crate::telemetry::{self, Payloads};

/// High enough that the cap is the limit.
const CONCURRENCY: u16 = 100;

/// Run everything in one process, on a private PostgreSQL
///
/// Starts the database, updates its schema, serves HTTP, and runs a worker with the models, tools
/// and agents of the config. Ctrl-C drains the server and the worker, then stops.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  adjutant up                                  data in ~/.local/share/adjutant
  adjutant up --data-dir ./data                data in this folder
  adjutant up --config team.toml               with these models, agents and tools
  adjutant up --listen 127.0.0.1:0             HTTP on any free port, which is printed
  adjutant up --database-url postgres://...    on an existing database
")]
pub struct Arguments {
    /// The data directory [default: $XDG_DATA_HOME/adjutant, else ~/.local/share/adjutant]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    /// Use this database instead of a private PostgreSQL
    #[arg(long, env = "DATABASE_URL", value_name = "URL", hide_env_values = true)]
    database_url: Option<String>,

    #[command(flatten)]
    listen: ListenArgs,

    #[command(flatten)]
    work: WorkerArgs,

    #[command(flatten)]
    logs: logs::Logs,

    /// Print one JSON object when ready: url, database_url (of a private database), schema, cap,
    /// worker
    #[arg(long)]
    json: bool,
}

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let config = arguments.work.config()?;
    let _telemetry = telemetry::init(&arguments.logs, Payloads::of(&config))?;
    config.log_start("up");
    arguments.work.check_machine(&config)?;
    // First, so that nothing has to be stopped again if the address is in use.
    let listener = arguments.listen.bind(&config).await?;
    let given = arguments.database_url.clone().filter(|url| !url.is_empty());
    let data_dir = match (&given, arguments.data_dir.clone()) {
        (Some(url), None) => return run_on(url, None, listener, &arguments, &config).await,
        (Some(_), Some(dir)) => {
            note!("adjutant: --data-dir is set, so --database-url or DATABASE_URL is ignored");
            dir
        }
        (None, Some(dir)) => dir,
        (None, None) => default_data_dir()?,
    };
    let mut postgres =
        interruptible(PrivatePostgres::start(DataLocation::Directory(data_dir))).await?;
    let url = postgres.url(DATABASE);
    let code = run_on(&url, Some(&mut postgres), listener, &arguments, &config).await?;
    postgres.stop().await?;
    Ok(code)
}

async fn run_on(
    url: &str,
    mut private: Option<&mut PrivatePostgres>,
    listener: BoundListener,
    arguments: &Arguments,
    config: &Config,
) -> anyhow::Result<ExitCode> {
    // Before the line is printed: a script that reads it may send a signal at once.
    let mut signals = Signals::listen()?;
    let mut all = AllInOne::start(url, listener, &arguments.work, config).await?;
    let AllInOne { url: http, schema, cap, .. } = &all;
    all.working.log_ready();
    tracing::info!(server.url = http, "server is ready at {http}");
    if let Some(postgres) = &private {
        postgres.publish_url(http)?;
    }
    let data_dir = private.as_ref().map(|postgres| postgres.data_dir());
    let _listed = Running::new("up", http, data_dir, config).list();
    // A URL that the user gave is not printed, because it may contain a password.
    let shown = private.as_ref().map(|_| url);
    if arguments.json {
        let worker = all.working.worker.id();
        print_json(
            &serde_json::json!({"url": http, "database_url": shown, "schema": schema, "cap": cap, "worker": worker})
                .to_string(),
        )?;
    } else {
        print_line(ready(http, shown, (*schema, *cap), config))?;
    }
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
    let draining = work::drain(all.working, arguments.work.grace(), &mut signals);
    let (code, ()) = tokio::try_join!(draining, all.serving.drain())?;
    Ok(code)
}

/// A worker and a server in this process, on a database whose schema is up to date.
pub struct AllInOne {
    pub working: RunningWorker,
    pub serving: RunningServer,
    /// The URL of the server.
    pub url: String,
    schema: i64,
    cap: i64,
}

impl AllInOne {
    pub async fn start(
        database: &str,
        listener: BoundListener,
        work: &WorkerArgs,
        config: &Config,
    ) -> anyhow::Result<Self> {
        let (schema, cap) = prepare(database, config).await?;
        let working = work.start(database, CONCURRENCY, config).await?;
        let url = listener.url();
        let serving = listener.serve(database, config).await?;
        Ok(Self { working, serving, url, schema, cap })
    }

    /// Returns if a part ends by itself, which is an error.
    pub async fn ended(&mut self) -> anyhow::Error {
        tokio::select! {
            error = self.serving.ended() => error,
            why = self.working.worker.stopped() => anyhow::anyhow!("the worker stopped unexpectedly: {why}"),
        }
    }
}

fn ready(http: &str, shown: Option<&str>, (schema, cap): (i64, i64), config: &Config) -> String {
    let inspect =
        shown.map(|url| format!(" Inspect the database with: psql '{url}'")).unwrap_or_default();
    let agents: Vec<&str> = config.agents.keys().map(String::as_str).collect();
    let agents = if agents.is_empty() {
        "no agents".to_owned()
    } else {
        format!("agents {}", agents.join(", "))
    };
    format!(
        "Ready at {http}: schema {schema}, cap {cap}, a worker, {agents}. Ctrl-C stops it.{inspect}\n{}",
        next_steps(http)
    )
}

/// Hints for the first steps.
fn next_steps(url: &str) -> String {
    format!(
        "Try it:  curl -s {url}/v1/sessions -H 'Content-Type: application/json' -d '{{\"session_id\": \"first\"}}'\n\
         Open:    {url}/ in a browser\n\
         Then:    {url}/openapi.json describes the API; GET {url}/v1/tools returns the tools for your model"
    )
}

/// The schema's version and the cap.
async fn prepare(url: &str, config: &Config) -> anyhow::Result<(i64, i64)> {
    let migrated = Store::migrate(url).await?;
    let store = Store::open(url, 2).await?;
    store.run_maintenance().await?;
    adopt_cap::adopt(&store, config).await?;
    let cap = store.slots().await?.cap;
    store.close().await;
    Ok((migrated.to, cap))
}
