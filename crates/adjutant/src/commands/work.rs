//! `adjutant work`: one worker of the fleet.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use adjutant_store::Store;
use adjutant_worker::{Settings, Worker};
use anyhow::{Context, bail};
use clap::Args;
use tokio_util::task::AbortOnDropHandle;

use crate::config::Config;
use crate::crew::Crew;
use crate::logs;
use crate::open_files;
use crate::output::print_line;
use crate::rehearsal::Rehearsals;
use crate::signals::{Interrupted, Signals};
use crate::telemetry::{self, Payloads};

/// Run a worker: it claims tasks, runs them, and leaves without losing one
///
/// Any number of workers share one database, and never run more tasks in all than the fleet's cap (`adjutant limits`). SIGTERM or
/// Ctrl-C drains: nothing new is claimed, tasks are handed over at their next turn, and others go on with them at once. A
/// second one exits now; then the tasks are taken over when their leases have run out.
///
/// What a task may use is in the config: models, tools, agents. `adjutant config example` prints one with every setting.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  adjutant work --database-url postgres://adjutant@db.example/adjutant
  adjutant work --config /etc/adjutant.toml           with these models, agents and tools
  adjutant work --concurrency 20 --pool gpu           only tasks that were spawned for this pool
  adjutant work --listen-url postgres://...           past a pooler that passes no notices on
  OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 adjutant work     sends traces there, as HTTP with protobuf
")]
pub struct Arguments {
    /// The database that the fleet shares
    #[arg(long, env = "DATABASE_URL", value_name = "URL", hide_env_values = true)]
    database_url: String,

    #[command(flatten)]
    work: Work,

    #[command(flatten)]
    logs: logs::Logs,

    /// Print one JSON object when it works: worker, name, pool, concurrency
    #[arg(long)]
    json: bool,
}

/// What `up` takes too.
#[derive(Debug, Args)]
pub struct Work {
    /// The most tasks that this worker runs at once, whatever the fleet's cap [default: 10; with `up` 100]
    #[arg(long, env = "ADJUTANT_CONCURRENCY", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    concurrency: Option<u16>,

    /// The pool whose tasks it takes
    #[arg(long, env = "ADJUTANT_POOL", value_name = "POOL", default_value = "default")]
    pool: String,

    /// Its name in the history [default: host and process id]
    #[arg(long, env = "ADJUTANT_WORKER_NAME", value_name = "NAME")]
    name: Option<String>,

    /// Where to hear notices, if the database URL leads through a pooler in transaction mode
    #[arg(long, env = "ADJUTANT_LISTEN_URL", value_name = "URL", hide_env_values = true)]
    listen_url: Option<String>,

    /// How long a task stays with a worker that is not heard of, in seconds [default: lease.seconds of the config, 30]
    #[arg(long, env = "ADJUTANT_LEASE_SECONDS", value_name = "S", value_parser = clap::value_parser!(u64).range(2..=3600))]
    lease_seconds: Option<u64>,

    /// How long draining may take, in seconds; shorter than what kills the process then
    #[arg(long, env = "ADJUTANT_GRACE_SECONDS", value_name = "S", default_value_t = 25, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    grace_seconds: u64,

    /// The longest that a task may run, over all its attempts, in seconds [default: no limit]
    #[arg(long, env = "ADJUTANT_TIME_LIMIT_SECONDS", value_name = "S", value_parser = clap::value_parser!(u64).range(1..))]
    time_limit_seconds: Option<u64>,

    /// The config file: models, agents, tools [default: ADJUTANT_CONFIG, else adjutant.toml here if there is one]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// For benchmarks and tests of the queue: play the rehearsals in tasks' configs, and run no agents
    #[arg(long, hide = true)]
    rehearse: bool,
}

impl Work {
    pub fn config(&self) -> anyhow::Result<Config> {
        Ok(Config::load(self.config.as_deref())?)
    }

    fn settings(&self, database_url: String, concurrency: u16, config: &Config) -> Settings {
        Settings {
            database_url,
            listen_url: self.listen_url.clone(),
            name: self.name.clone().unwrap_or_else(host_and_process),
            pool: self.pool.clone(),
            concurrency: self.concurrency.unwrap_or(concurrency),
            lease: Duration::from_secs(self.lease_seconds.unwrap_or(config.lease_seconds)),
            time_limit: self.time_limit_seconds.map(Duration::from_secs).or(longest(config)),
            webhooks: config.webhooks,
        }
    }

    /// Starts a worker with the models, tools and agents of the config; `concurrency` is for those who did not say.
    pub async fn start(
        &self,
        database_url: &str,
        concurrency: u16,
        config: &Config,
    ) -> anyhow::Result<Working> {
        open_files::allow_all();
        let settings = self.settings(database_url.to_owned(), concurrency, config);
        if self.rehearse {
            let worker =
                Worker::start(settings.clone(), Rehearsals).await.context("cannot start the worker")?;
            return Ok(Working { worker, settings, _publishing: None });
        }
        if config.models.is_empty() {
            tracing::warn!(
                "there are no models in the config, so every task fails; `adjutant config example > adjutant.toml` is a start"
            );
        }
        let (agents, publication) = Crew::of(config).await?.into_parts(config);
        let worker = Worker::start(settings.clone(), agents).await.context("cannot start the worker")?;
        let store = Store::open(database_url, 1).await?;
        publication.begin(&store).await.context("cannot tell of the agents and tools")?;
        let following = tokio::spawn(publication.follow(store));
        Ok(Working { worker, settings, _publishing: Some(AbortOnDropHandle::new(following)) })
    }

    pub fn grace(&self) -> Duration {
        Duration::from_secs(self.grace_seconds)
    }
}

/// A worker that works, and tells of its agents and tools until this is dropped.
pub struct Working {
    pub worker: Worker,
    pub settings: Settings,
    _publishing: Option<AbortOnDropHandle<()>>,
}

/// The longest that the operator lets any task run.
fn longest(config: &Config) -> Option<Duration> {
    config.limits.task_timeout_max_s.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
}

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let config = arguments.work.config()?;
    let _telemetry = telemetry::begin(&arguments.logs, Payloads::of(&config))?;
    let mut signals = Signals::listen()?;
    config.log_warnings();
    let mut working = arguments.work.start(&arguments.database_url, 10, &config).await?;
    let Settings { name, pool, concurrency, .. } = &working.settings;
    print_line(&if arguments.json {
        serde_json::json!({"worker": working.worker.id(), "name": name, "pool": pool, "concurrency": concurrency})
            .to_string()
    } else {
        format!("Worker {name} takes tasks of pool {pool}, {concurrency} at a time. Ctrl-C drains it.")
    })?;
    tokio::select! {
        why = working.worker.stopped() => bail!("the worker ended by itself: {why}"),
        _ = signals.next() => {}
    }
    drain(working.worker, arguments.work.grace(), &mut signals).await
}

/// Lets the worker leave, unless a second signal says that there is no time for it.
pub async fn drain(worker: Worker, grace: Duration, signals: &mut Signals) -> anyhow::Result<ExitCode> {
    tracing::info!("draining, for at most {} seconds; the same signal again exits now", grace.as_secs());
    let drained = tokio::select! {
        drained = worker.drain(grace) => drained,
        name = signals.next() => return Err(Interrupted(name).into()),
    };
    if drained.left_behind > 0 {
        bail!(
            "{} tasks could not be given back; others take them over when their leases have run out",
            drained.left_behind
        );
    }
    tracing::info!("drained");
    Ok(ExitCode::SUCCESS)
}

fn host_and_process() -> String {
    let host =
        std::fs::read_to_string("/proc/sys/kernel/hostname").ok().or_else(|| std::env::var("HOSTNAME").ok());
    format!("{}/{}", host.as_deref().map_or("worker", str::trim), std::process::id())
}
