//! `adjutant work`: runs one worker of the fleet.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use adjutant_store::Store;
use adjutant_worker::{Drained, Settings, Worker};
use anyhow::{Context, bail};
use clap::Args;

use crate::adopt_cap;
use crate::config::{Config, Role};
use crate::logs;
use crate::open_files;
use crate::output::{print_json, print_line};
use crate::signals::{Interrupted, Signals};
use crate::simulation::SimulatedTasks;
use crate::telemetry::{self, Payloads};
use crate::worker_setup::{Publishing, WorkerSetup};

/// Run a worker, which claims tasks and runs them
///
/// Any number of workers share one database. Together they never run more tasks than the fleet's
/// cap (`adjutant limits`). SIGTERM or Ctrl-C drains the worker: it claims nothing new and releases
/// its tasks at their next turn, and other workers continue them at once. A second signal exits at
/// once; the tasks then continue when their leases expire.
///
/// The config has the models, tools and agents. `adjutant config example` prints one with every
/// setting.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  adjutant work --database-url postgres://adjutant@db.example/adjutant
  adjutant work --config /etc/adjutant.toml           with these models, agents and tools
  adjutant work --concurrency 20 --pool gpu           only tasks of this pool
  adjutant work --listen-url postgres://...           if a pooler does not pass on notifications
  OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 adjutant work     exports traces (OTLP over HTTP with protobuf)
")]
pub struct Arguments {
    /// The URL of the fleet's database
    #[arg(long, env = "DATABASE_URL", value_name = "URL", hide_env_values = true)]
    database_url: String,

    #[command(flatten)]
    work: WorkerArgs,

    #[command(flatten)]
    logs: logs::Logs,

    /// Print one JSON object when ready: worker, name, pool, concurrency
    #[arg(long)]
    json: bool,
}

/// Shared with `up`.
#[derive(Debug, Args)]
pub struct WorkerArgs {
    /// The most tasks that this worker runs at once, within the fleet's cap [default: 10; with `up`
    /// 100]
    #[arg(long, env = "ADJUTANT_CONCURRENCY", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    concurrency: Option<u16>,

    /// The pool to claim tasks from
    #[arg(long, env = "ADJUTANT_POOL", value_name = "POOL", default_value = "default")]
    pool: String,

    /// The name of the worker in the history [default: host and process id]
    #[arg(long, env = "ADJUTANT_WORKER_NAME", value_name = "NAME")]
    name: Option<String>,

    /// The URL on which to LISTEN, if the database URL leads through a pooler in transaction mode
    #[arg(long, env = "ADJUTANT_LISTEN_URL", value_name = "URL", hide_env_values = true)]
    listen_url: Option<String>,

    /// How long a worker keeps a task after its last renewal, in seconds [default:
    /// lease.seconds of the config, 30]
    #[arg(long, env = "ADJUTANT_LEASE_SECONDS", value_name = "S", value_parser = clap::value_parser!(u64).range(2..=3600))]
    lease_seconds: Option<u64>,

    /// The longest time that draining may take, in seconds; set it shorter than your supervisor's
    /// kill timeout
    #[arg(long, env = "ADJUTANT_GRACE_SECONDS", value_name = "S", default_value_t = 25, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    grace_seconds: u64,

    /// The longest time that a task may run, over all its attempts, in seconds [default: no limit]
    #[arg(long, env = "ADJUTANT_TIME_LIMIT_SECONDS", value_name = "S", value_parser = clap::value_parser!(u64).range(1..))]
    time_limit_seconds: Option<u64>,

    /// The config file: models, agents, tools [default: $ADJUTANT_CONFIG, else ./adjutant.toml if
    /// it exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// For benchmarks and tests of the queue: run the simulations in the tasks' configs instead of
    /// agents
    #[arg(long, hide = true)]
    simulate: bool,
}

impl WorkerArgs {
    pub fn config(&self) -> anyhow::Result<Config> {
        Ok(Config::load(self.config.as_deref(), Role::Worker)?)
    }

    /// Refuses a config whose keys and folders are not on this machine, before anything starts.
    pub fn check_machine(&self, config: &Config) -> anyhow::Result<()> {
        if self.simulate { Ok(()) } else { Ok(config.check_machine()?) }
    }

    fn settings(&self, database_url: String, concurrency: u16, config: &Config) -> Settings {
        Settings {
            database_url,
            listen_url: self.listen_url.clone(),
            name: self.name.clone().unwrap_or_else(host_and_process),
            pool: self.pool.clone(),
            concurrency: self.concurrency.unwrap_or(concurrency),
            lease: Duration::from_secs(self.lease_seconds.unwrap_or(config.lease_seconds)),
            context_versions: config.limits.context_versions,
            texts: config.limits.texts(),
            time_limit: self.time_limit_seconds.map(Duration::from_secs).or(max_task_time(config)),
            tool_patience: Duration::from_secs_f64(config.limits.tool_patience_s),
            webhooks: config.webhooks,
        }
    }

    /// Starts a worker with the models, tools and agents of the config. `concurrency` is the
    /// default.
    pub async fn start(
        &self,
        database_url: &str,
        concurrency: u16,
        config: &Config,
    ) -> anyhow::Result<RunningWorker> {
        open_files::raise_limit();
        let settings = self.settings(database_url.to_owned(), concurrency, config);
        if self.simulate {
            let worker = Worker::start(settings.clone(), SimulatedTasks)
                .await
                .context("cannot start the worker")?;
            logs::set_worker(worker.id(), &settings.name);
            return Ok(RunningWorker { worker, settings, publishing: None });
        }
        if config.models.is_empty() {
            tracing::warn!(
                "the config has no models, so every task will fail; start with `adjutant config example > adjutant.toml`"
            );
        }
        let (agents, publisher) =
            WorkerSetup::from_config(config)?.into_parts(config, &settings.name);
        let worker =
            Worker::start(settings.clone(), agents).await.context("cannot start the worker")?;
        logs::set_worker(worker.id(), &settings.name);
        let store = Store::open(database_url, 1).await?;
        let publishing =
            publisher.start(store).await.context("cannot publish the agents and tools")?;
        Ok(RunningWorker { worker, settings, publishing: Some(publishing) })
    }

    pub fn grace(&self) -> Duration {
        Duration::from_secs(self.grace_seconds)
    }
}

/// A running worker. Its agents and tools are published.
pub struct RunningWorker {
    pub worker: Worker,
    pub settings: Settings,
    publishing: Option<Publishing>,
}

impl RunningWorker {
    pub fn log_ready(&self) {
        let Settings { name, pool, concurrency, .. } = &self.settings;
        tracing::info!(
            worker.pool = pool,
            worker.concurrency = concurrency,
            "worker {name} is ready: pool {pool}, at most {concurrency} tasks at once"
        );
    }

    /// Drains the worker and takes its agents back.
    pub async fn drain(self, grace: Duration) -> Drained {
        let Self { worker, publishing, .. } = self;
        let unpublished = async {
            if let Some(publishing) = publishing {
                publishing.stop().await;
            }
        };
        tokio::join!(worker.drain(grace), unpublished).0
    }
}

/// The operator's limit for every task.
fn max_task_time(config: &Config) -> Option<Duration> {
    config.limits.task_timeout_max_s.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
}

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let config = arguments.work.config()?;
    let _telemetry = telemetry::init(&arguments.logs, Payloads::of(&config))?;
    let mut signals = Signals::listen()?;
    config.log_start("work");
    arguments.work.check_machine(&config)?;
    adopt_cap::at(&arguments.database_url, &config).await?;
    let mut working = arguments.work.start(&arguments.database_url, 10, &config).await?;
    working.log_ready();
    let Settings { name, pool, concurrency, .. } = &working.settings;
    if arguments.json {
        print_json(&serde_json::json!({"worker": working.worker.id(), "name": name, "pool": pool, "concurrency": concurrency})
            .to_string())?;
    } else {
        print_line(format!(
            "Worker {name} is ready: pool {pool}, at most {concurrency} tasks at once. Ctrl-C drains it."
        ))?;
    }
    tokio::select! {
        why = working.worker.stopped() => bail!("the worker stopped unexpectedly: {why}"),
        _ = signals.next() => {}
    }
    drain(working, arguments.work.grace(), &mut signals).await
}

/// Drains the worker, unless a second signal arrives, which exits at once.
pub async fn drain(
    working: RunningWorker,
    grace: Duration,
    signals: &mut Signals,
) -> anyhow::Result<ExitCode> {
    tracing::info!(
        "draining for at most {} seconds; send the signal again to exit at once",
        grace.as_secs()
    );
    let drained = tokio::select! {
        drained = working.drain(grace) => drained,
        name = signals.next() => return Err(Interrupted(name).into()),
    };
    if drained.left_behind > 0 {
        bail!(
            "{} tasks could not be released; other workers continue them when their leases expire",
            drained.left_behind
        );
    }
    tracing::info!("drained");
    Ok(ExitCode::SUCCESS)
}

/// The name of this process for people.
pub fn host_and_process() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .or_else(|| std::env::var("HOSTNAME").ok());
    format!("{}/{}", host.as_deref().map_or("worker", str::trim), std::process::id())
}
