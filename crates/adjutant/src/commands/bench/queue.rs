//! `adjutant bench queue`: the life of tasks against what PostgreSQL could do at best.

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

/// The whole life of tasks, from spawn to their end, against PostgreSQL's own limits
///
/// Everything runs on a throwaway PostgreSQL with fsync on and 4 worker processes. The limits are measured in the same run:
/// `naive` and `batch` with pgbench (claim with SKIP LOCKED and finish, one or 50 at a time, on a table with the columns of a
/// task), `bare` is insert, NOTIFY and a plain claim. Takes up to 4 minutes and 6 GB of disk.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  adjutant bench queue              the table
  adjutant bench queue --json       one object with stable keys
  adjutant bench queue --quick      a first impression in less than 40 seconds
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
/// Connections that spawn.
const SPAWNERS: usize = 4;
/// Tasks in one bulk spawn, and in a session of it.
const BULK: usize = 50;
/// Between two starts: longer than the pause between two notices, so that the fleet is idle. The bare limit has the same, for
/// what rests is slower than what has just run.
pub const IDLE: Duration = Duration::from_millis(70);
/// Tasks that nobody times.
const WARM_UP: usize = 500;

/// How much is measured.
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
    progress.set_message("starting a throwaway PostgreSQL");
    let postgres = PrivatePostgres::start(DataLocation::TemporaryDurable).await?;
    let pgbench = limits::pgbench(&postgres)?;
    let url = postgres.url(DATABASE);
    Store::migrate(&url).await?;
    let bench = Bench { store: Store::open(&url, 10).await?, url: &url, size, progress: &progress };

    bench.say("the limit: one at a time, by pgbench");
    let naive_tasks_per_s = limits::naive(&pgbench, &bench.store, &url, size.limit_seconds).await?;
    bench.say("the limit: 50 at a time, by pgbench");
    let batch_tasks_per_s = limits::batch(&pgbench, &bench.store, &url, size.limit_seconds).await?;
    bench.say("the limit: insert, notify, claim");
    let bare_start = bare::start(&url, size.start_samples).await?;
    bench.store.drop_yardstick().await?;

    let fresh = bench.figures(0).await?;
    bench.say("adding finished tasks");
    bench.store.add_history(size.history).await?;
    let aged = bench.figures(size.history).await?;
    progress.finish_and_clear();
    bench.store.close().await;
    let version = postgres.server_version().to_owned();
    postgres.stop().await?;
    let limits = Limits { naive_tasks_per_s, batch_tasks_per_s, bare_start };
    Report::new(limits, fresh, aged, version).context("not all was measured")?.print(arguments.json)
}

struct Bench<'a> {
    store: Store,
    url: &'a str,
    size: Size,
    progress: &'a ProgressBar,
}

impl Bench<'_> {
    fn say(&self, what: &str) {
        self.progress.set_message(what.to_owned());
    }

    async fn figures(&self, history_tasks: i64) -> anyhow::Result<Figures> {
        self.store.set_cap(CAP).await?;
        self.say("the whole life, 4 workers");
        let whole_life_4_workers_per_s = self.whole_life(4, 13).await?;
        let others = if history_tasks == 0 || !self.size.is_quick {
            Some(self.others().await?)
        } else {
            None
        };
        Ok(Figures { history_tasks, whole_life_4_workers_per_s, others })
    }

    async fn others(&self) -> anyhow::Result<FullFigures> {
        self.say("the whole life, 1 worker");
        let whole_life_1_worker_per_s = self.whole_life(1, 50).await?;
        let workers = self.start_workers(1, 50).await?;
        self.say("efficiency with tasks of 50 ms");
        let efficiency_cap50_50ms = self.efficiency().await?;
        stop(workers).await?;
        let workers = self.start_workers(4, 13).await?;
        self.say("from spawn to start");
        let start = self.start().await?;
        stop(workers).await?;
        self.say("queries of an idle worker");
        let idle_queries_per_s = self.idle().await?;
        self.say("spawns, one a call");
        let spawn_single_per_s = self.spawn_rate(1).await?;
        self.say("spawns, 50 a call");
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

    /// Tasks spawned a second, `bulk` in a call, by a few connections at once; afterwards they are forgotten.
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
                // A new session now and then: a long backlog of one session is not what is measured.
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

    /// Tasks a second from the first spawn to the last end, with workers that wait for them.
    async fn whole_life(&self, workers: u16, concurrency: u16) -> anyhow::Result<f64> {
        let workers = self.start_workers(workers, concurrency).await?;
        // So that every connection has its plans.
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

    /// Ends a second while there is enough to do, as a share of what 50 slots could do at most.
    async fn efficiency(&self) -> anyhow::Result<f64> {
        const WORK_MS: u64 = 50;
        let most_per_s = 1000;
        self.store.set_cap(0).await?;
        self.spawn(most_per_s * (self.size.efficiency_seconds + 1), WORK_MS).await?;
        self.store.checkpoint().await?;
        self.store.set_cap(CAP).await?;
        // The slots fill up first, and at the end they run empty.
        let from = Utc::now() + Duration::from_millis(500);
        let seconds = self.size.efficiency_seconds - 1;
        let to = from + Duration::from_secs(seconds as u64);
        self.until_finished().await?;
        let ended = usize::try_from(self.store.finished_between(from, to).await?)?;
        Ok(per_second(ended, Duration::from_secs(seconds as u64))
            / per_second(most_per_s, Duration::from_secs(1)))
    }

    /// From before the call that spawns a task to the first line of its handler, in another process.
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
            // Asking at once would be in its way.
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
            let started = Duration::from_micros(
                started_us.context("the result does not say when it started")?,
            );
            times.push(started.saturating_sub(began));
        }
        Ok(Quantiles::of(times))
    }

    /// What one worker that has nothing to do asks of the database. (Counting transactions would not do: connections tell
    /// of theirs up to a minute later, and PostgreSQL makes some of its own.)
    async fn idle(&self) -> anyhow::Result<f64> {
        let ours: HashSet<i32> =
            self.store.last_queries().await?.into_iter().map(|(pid, _)| pid).collect();
        let workers = self.start_workers(1, 10).await?;
        // Its start is over.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let mut seen = HashSet::new();
        let began = Instant::now();
        let mut at_first = 0;
        while began.elapsed() < Duration::from_secs(self.size.idle_seconds) {
            let queries = self.store.last_queries().await?;
            seen.extend(queries.into_iter().filter(|(pid, _)| !ours.contains(pid)));
            if at_first == 0 {
                at_first = seen.len();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let elapsed = began.elapsed();
        stop(workers).await?;
        Ok(per_second(seen.len() - at_first, elapsed))
    }

    /// Spawns so many tasks in bulk, by a few connections at once.
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
        // Until they have heard their own first notice, they poll.
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

/// A task with 1 KB of assignment that gives 1 KB of result.
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
