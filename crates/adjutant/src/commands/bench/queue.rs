//! `adjutant bench queue`: task throughput and latency, compared with plain PostgreSQL.

use std::collections::HashSet;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use adjutant_agent::{Outcome, SessionId};
use adjutant_store::{NewSession, NewTask, Store};
use anyhow::{Context, bail};
use chrono::Utc;
use clap::Args;
use futures::future::try_join_all;
use indicatif::ProgressBar;

use super::report::{Figures, FullFigures, Limits, Quantiles, Report};
use super::{bare, limits, progress};
use crate::private_postgres::{DATABASE, DataLocation, PrivatePostgres};
use crate::worker_processes::{WorkerKind, WorkerProcess};

/// Measure task throughput and latency, compared with plain PostgreSQL
///
/// Runs on a temporary PostgreSQL with fsync on, with 4 worker processes. The same run measures the
/// baselines. `naive` and `batch` use pgbench on a table with the columns of a task: they claim
/// with SKIP LOCKED and then finish, one row or 50 rows at a time. `bare` inserts a row, sends a
/// NOTIFY and claims the row. Takes up to 4 minutes and 6 GB of disk.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  adjutant bench queue              prints a table
  adjutant bench queue --json       prints one JSON object with stable keys
  adjutant bench queue --quick      takes less than 40 seconds; the figures vary more
")]
pub struct Arguments {
    /// Measure for a shorter time, with a shorter history
    #[arg(long)]
    quick: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const CAP: i32 = 50;
/// Connections that spawn concurrently.
const SPAWNERS: usize = 4;
/// Tasks in one bulk spawn; each bulk spawn has its own session.
const BULK: usize = 50;
/// The pause before each latency sample. It is longer than the pause between two notices, so that
/// the fleet is idle. The bare baseline pauses too, because idle processes wake up more slowly.
pub const IDLE: Duration = Duration::from_millis(70);
/// Tasks that run before the measurement starts.
const WARM_UP: usize = 500;

/// The duration and the sample sizes of a run.
#[derive(Debug, Clone, Copy)]
struct Size {
    is_quick: bool,
    history: i64,
    limit_seconds: u64,
    spawn_seconds: u64,
    life_tasks: usize,
    start_samples: usize,
    efficiency_seconds: usize,
    idle_seconds: u64,
}

const FULL: Size = Size {
    is_quick: false,
    history: 1_000_000,
    limit_seconds: 6,
    spawn_seconds: 3,
    life_tasks: 20_000,
    start_samples: 100,
    efficiency_seconds: 5,
    idle_seconds: 10,
};

const QUICK: Size = Size {
    is_quick: true,
    history: 20_000,
    limit_seconds: 2,
    spawn_seconds: 1,
    life_tasks: 4_000,
    start_samples: 30,
    efficiency_seconds: 2,
    idle_seconds: 6,
};

pub async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let size = if arguments.quick { QUICK } else { FULL };
    let progress = progress()?;
    progress.set_message("starting a temporary PostgreSQL");
    let postgres = PrivatePostgres::start(DataLocation::TemporaryDurable).await?;
    let pgbench = limits::pgbench(&postgres)?;
    let url = postgres.url(DATABASE);
    Store::migrate(&url).await?;
    let bench = Bench { store: Store::open(&url, 10).await?, url: &url, size, progress: &progress };

    bench.show_step("baseline: one task at a time (pgbench)");
    let naive_tasks_per_s = limits::naive(&pgbench, &bench.store, &url, size.limit_seconds).await?;
    bench.show_step("baseline: 50 tasks at a time (pgbench)");
    let batch_tasks_per_s = limits::batch(&pgbench, &bench.store, &url, size.limit_seconds).await?;
    bench.show_step("baseline: insert, notify, claim");
    let bare_start = bare::start(&url, size.start_samples).await?;
    bench.store.drop_yardstick().await?;

    let fresh = bench.figures(0).await?;
    bench.show_step("adding a history of finished tasks");
    bench.store.add_history(size.history).await?;
    let aged = bench.figures(size.history).await?;
    progress.finish_and_clear();
    bench.store.close().await;
    let version = postgres.server_version().to_owned();
    postgres.stop().await?;
    let limits = Limits { naive_tasks_per_s, batch_tasks_per_s, bare_start };
    Report::new(limits, fresh, aged, version)
        .context("the report is incomplete: the full figures are missing")?
        .print(arguments.json)
}

struct Bench<'a> {
    store: Store,
    url: &'a str,
    size: Size,
    progress: &'a ProgressBar,
}

impl Bench<'_> {
    fn show_step(&self, step: &str) {
        self.progress.set_message(step.to_owned());
    }

    async fn figures(&self, history_tasks: i64) -> anyhow::Result<Figures> {
        self.store.set_cap(CAP).await?;
        self.show_step("spawn to end, 4 workers");
        let whole_life_4_workers_per_s = self.whole_life(4, 13).await?;
        let full = if history_tasks == 0 || !self.size.is_quick {
            Some(self.full_figures().await?)
        } else {
            None
        };
        Ok(Figures { history_tasks, whole_life_4_workers_per_s, full })
    }

    async fn full_figures(&self) -> anyhow::Result<FullFigures> {
        self.show_step("spawn to end, 1 worker");
        let whole_life_1_worker_per_s = self.whole_life(1, 50).await?;
        let workers = self.start_workers(1, 50).await?;
        self.show_step("slot efficiency with tasks of 50 ms");
        let efficiency_cap50_50ms = self.efficiency().await?;
        stop(workers).await?;
        let workers = self.start_workers(4, 13).await?;
        self.show_step("latency from spawn to start");
        let start = self.start().await?;
        stop(workers).await?;
        self.show_step("queries of an idle worker");
        let idle_queries_per_s = self.idle().await?;
        self.show_step("spawns, 1 task per call");
        let spawn_single_per_s = self.spawn_rate(1).await?;
        self.show_step("spawns, 50 tasks per call");
        let spawn_bulk_per_s = self.spawn_rate(BULK).await?;
        Ok(FullFigures {
            spawn_single_per_s,
            spawn_bulk_per_s,
            whole_life_1_worker_per_s,
            start,
            efficiency_cap50_50ms,
            idle_queries_per_s,
        })
    }

    /// Spawned tasks per second, `bulk` tasks per call. The tasks are deleted afterwards.
    async fn spawn_rate(&self, bulk: usize) -> anyhow::Result<f64> {
        self.spawn_for(bulk, Duration::from_millis(300)).await?;
        self.store.checkpoint().await?;
        let (spawned, elapsed) =
            self.spawn_for(bulk, Duration::from_secs(self.size.spawn_seconds)).await?;
        self.store.delete_unfinished().await?;
        Ok(per_second(spawned, elapsed))
    }

    async fn spawn_for(&self, bulk: usize, time: Duration) -> anyhow::Result<(usize, Duration)> {
        let began = Instant::now();
        let until = began + time;
        let spawners = (0..SPAWNERS).map(|_| async {
            let mut spawned = 0;
            while Instant::now() < until {
                // A new session for every 50 tasks: a session with a long backlog is a different
                // case.
                let session = self.session().await?;
                for _ in 0..BULK / bulk {
                    self.store.spawn(session, &vec![task(0); bulk], None).await?;
                    spawned += bulk;
                }
            }
            anyhow::Ok(spawned)
        });
        let spawned: usize = try_join_all(spawners).await?.into_iter().sum();
        Ok((spawned, began.elapsed()))
    }

    /// Tasks per second from the first spawn to the last end, with idle workers at the start.
    async fn whole_life(&self, workers: u16, concurrency: u16) -> anyhow::Result<f64> {
        let workers = self.start_workers(workers, concurrency).await?;
        // So that every connection has prepared its statements.
        self.spawn(WARM_UP, 0).await?;
        self.until_finished().await?;
        self.store.checkpoint().await?;
        let began = Instant::now();
        self.spawn(self.size.life_tasks, 0).await?;
        self.until_finished().await?;
        let rate = per_second(self.size.life_tasks, began.elapsed());
        stop(workers).await?;
        Ok(rate)
    }

    /// Tasks that end per second with a full queue, as a share of the maximum for 50 slots.
    async fn efficiency(&self) -> anyhow::Result<f64> {
        const WORK_MS: u64 = 50;
        let max_per_s = 1000;
        self.store.set_cap(0).await?;
        self.spawn(max_per_s * (self.size.efficiency_seconds + 1), WORK_MS).await?;
        self.store.checkpoint().await?;
        self.store.set_cap(CAP).await?;
        // Leaves out the first and the last part, in which not all slots are used.
        let from = Utc::now() + Duration::from_millis(500);
        let seconds = self.size.efficiency_seconds - 1;
        let to = from + Duration::from_secs(seconds as u64);
        self.until_finished().await?;
        let ended = usize::try_from(self.store.finished_between(from, to).await?)?;
        Ok(per_second(ended, Duration::from_secs(seconds as u64))
            / per_second(max_per_s, Duration::from_secs(1)))
    }

    /// The time from the spawn call to the first line of the handler, which runs in another
    /// process.
    async fn start(&self) -> anyhow::Result<Quantiles> {
        let mut times = Vec::new();
        let mut session = self.session().await?;
        for sample in 0..self.size.start_samples {
            if sample % BULK == 0 {
                session = self.session().await?;
            }
            tokio::time::sleep(IDLE).await;
            let began = SystemTime::now().duration_since(UNIX_EPOCH)?;
            let spawned = self.store.spawn(session, &[task(0)], None).await?;
            // A query at once would compete with the claim.
            tokio::time::sleep(Duration::from_millis(10)).await;
            self.until_finished().await?;
            let number = spawned.first().context("nothing was spawned")?.number;
            let Outcome::Completed { result, .. } =
                self.store.collect(session, number, None).await?.outcome
            else {
                bail!("a task did not complete");
            };
            let started_us = result
                .strip_prefix("started_us=")
                .and_then(|rest| rest.split(' ').next()?.parse().ok());
            let started =
                Duration::from_micros(started_us.context("the result has no started_us")?);
            times.push(started.saturating_sub(began));
        }
        Ok(Quantiles::of(times))
    }

    /// The queries per second of an idle worker. The statistics of PostgreSQL do not help here:
    /// connections report their transactions up to a minute late, and PostgreSQL adds its own.
    async fn idle(&self) -> anyhow::Result<f64> {
        let own_connections: HashSet<i32> =
            self.store.last_queries().await?.into_iter().map(|(pid, _)| pid).collect();
        let workers = self.start_workers(1, 10).await?;
        // Leaves out the queries of its start.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let mut seen = HashSet::new();
        let began = Instant::now();
        let mut at_first = 0;
        while began.elapsed() < Duration::from_secs(self.size.idle_seconds) {
            let queries = self.store.last_queries().await?;
            seen.extend(queries.into_iter().filter(|(pid, _)| !own_connections.contains(pid)));
            if at_first == 0 {
                at_first = seen.len();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let elapsed = began.elapsed();
        stop(workers).await?;
        Ok(per_second(seen.len() - at_first, elapsed))
    }

    /// Spawns tasks in bulk over several connections.
    async fn spawn(&self, tasks: usize, work_ms: u64) -> anyhow::Result<()> {
        let calls = tasks.div_ceil(BULK);
        let spawners = (0..SPAWNERS).map(|spawner| async move {
            for call in (spawner..calls).step_by(SPAWNERS) {
                let session = self.session().await?;
                let count = BULK.min(tasks - call * BULK);
                self.store.spawn(session, &vec![task(work_ms); count], None).await?;
            }
            anyhow::Ok(())
        });
        try_join_all(spawners).await?;
        Ok(())
    }

    async fn start_workers(
        &self,
        count: u16,
        concurrency: u16,
    ) -> anyhow::Result<Vec<WorkerProcess>> {
        let workers = try_join_all(
            (0..count).map(|_| WorkerProcess::start(self.url, concurrency, WorkerKind::Simulated)),
        )
        .await?;
        // Workers poll often until their LISTEN connection has passed its self-test.
        tokio::time::sleep(Duration::from_millis(300)).await;
        Ok(workers)
    }

    async fn session(&self) -> anyhow::Result<SessionId> {
        let name = uuid::Uuid::now_v7().to_string();
        let new = NewSession { tenant: "bench".to_owned(), name, ..NewSession::default() };
        Ok(self.store.create_session(&new).await?.id)
    }

    async fn until_finished(&self) -> anyhow::Result<()> {
        while self.store.has_unfinished().await? {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }
}

async fn stop(workers: Vec<WorkerProcess>) -> anyhow::Result<()> {
    try_join_all(workers.into_iter().map(WorkerProcess::stop)).await?;
    Ok(())
}

/// A task with an assignment of 1 KB and a result of 1 KB.
fn task(work_ms: u64) -> NewTask {
    let config = serde_json::json!({"simulation": {"work_ms": work_ms, "result_bytes": 1024}});
    NewTask {
        agent: "bench".to_owned(),
        assignment: "0123456789abcdef".repeat(64),
        config: config.as_object().cloned().unwrap_or_default(),
        queue: true,
        ..NewTask::default()
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts in a benchmark are far below 2^52")]
fn per_second(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}
