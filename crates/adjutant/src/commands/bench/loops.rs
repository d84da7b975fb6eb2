//! `adjutant bench loops`: the cost of a thousand agent loops in one worker.

mod model;
mod report;

use std::time::{Duration, Instant};

use adjutant_agent::{AgentConfig, SessionId};
use adjutant_store::{Insert, NewSession, NewTask, Store};
use anyhow::ensure;
use clap::Args;
use indicatif::ProgressBar;
use serde_json::{Map, Value};

use self::model::{ANSWER, Model, Pace, TURNS};
use self::report::{LoopGroup, Report, TurnCosts};
use super::memory::PeakMemory;
use super::progress;
use super::report::Quantiles;
use crate::open_files;
use crate::private_postgres::{DATABASE, DataLocation, PrivatePostgres};
use crate::worker_processes::{WorkerKind, WorkerProcess};

/// Measure a thousand agent loops in one worker: time, memory, database calls
///
/// Runs on a temporary PostgreSQL with fsync on, with one worker process and a scripted model that
/// streams its answers. A loop has 5 turns without tools. The baselines are 10 loops, and a single
/// committed insert of a turn, in the same run. Takes about a minute. Linux only: it reads memory
/// from /proc.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  adjutant bench loops              prints a table
  adjutant bench loops --json       prints one JSON object with stable keys: slowdown_1000_vs_10,
                                    kib_per_loop, turn_overhead_vs_insert, commits_per_turn, and the
                                    figures behind them
")]
pub struct Arguments {
    /// Print one JSON object
    #[arg(long)]
    json: bool,

    /// For tests: a few loops with a fast model, too few for meaningful figures
    #[arg(long, hide = true)]
    tiny: bool,
}

/// Loops per session, spawned in one call.
const PER_SESSION: usize = 5;
const CONCURRENCY: u16 = 1000;
const ROUNDS: usize = 4;
const SYSTEM_PROMPT: &str = "You take part in a measurement. Answer at length.";
/// A group of loops that takes longer has hung.
const MAX_WAIT: Duration = Duration::from_secs(120);

/// The duration and the sample sizes of a run.
#[derive(Debug, Clone, Copy)]
struct Size {
    few: usize,
    many: usize,
    /// The time over which the starts of the loops are spread.
    starts: Duration,
    /// The time that the model takes for an answer.
    answer: Duration,
    /// Loops whose turns are timed, and inserts for comparison, over all rounds.
    timed: usize,
    inserts: usize,
}

const FULL: Size = Size {
    few: 10,
    many: 1000,
    starts: Duration::from_secs(2),
    answer: Duration::from_secs(2),
    timed: 100,
    inserts: 200,
};

const TINY: Size = Size {
    few: 5,
    many: 20,
    starts: Duration::from_millis(100),
    answer: Duration::from_millis(100),
    timed: 20,
    inserts: 20,
};

pub async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    open_files::raise_limit();
    let size = if arguments.tiny { TINY } else { FULL };
    let progress = progress()?;
    progress.set_message("starting a temporary PostgreSQL");
    let postgres = PrivatePostgres::start(DataLocation::TemporaryDurable).await?;
    let url = postgres.url(DATABASE);
    Store::migrate(&url).await?;
    let model = Model::start(size.answer).await?;
    let bench = Bench {
        store: Store::open(&url, 4).await?,
        url: &url,
        model: &model,
        size,
        progress: &progress,
    };
    let costs = bench.costs().await?;
    let (few, many, round_trips_per_turn) = bench.groups().await?;
    progress.finish_and_clear();
    bench.store.close().await;
    let version = postgres.server_version().to_owned();
    postgres.stop().await?;
    Report::new(costs, few, many, round_trips_per_turn, version).print(arguments.json)
}

struct Bench<'a> {
    store: Store,
    url: &'a str,
    model: &'a Model,
    size: Size,
    progress: &'a ProgressBar,
}

impl Bench<'_> {
    fn show_step(&self, step: &str) {
        self.progress.set_message(step.to_owned());
    }

    /// The cost of a turn without contention: one loop at a time. Loops and inserts alternate, so
    /// that other load on the machine affects both.
    async fn costs(&self) -> anyhow::Result<TurnCosts> {
        let worker = self.start_worker().await?;
        self.warm_up().await?;
        let loops = self.size.timed / ROUNDS;
        let (mut inserts, mut commits) = (Vec::new(), 0);
        for round in 1..=ROUNDS {
            self.show_step(&format!("single inserts and single turns, round {round} of {ROUNDS}"));
            inserts.extend(self.inserts().await?);
            // Spawned before the first one starts, so that only commits of the worker are counted.
            self.store.set_cap(0).await?;
            let made = self.spawn(loops, Pace::Quick, Duration::ZERO).await?;
            let before = self.store.commits().await?;
            self.store.set_cap(1).await?;
            self.until_ended(&made).await?;
            commits += self.store.commits().await? - before;
        }
        worker.stop().await?;
        Ok(TurnCosts {
            commits_per_turn: per(commits, loops * ROUNDS * TURNS),
            turn_overhead: Quantiles::of(self.model.gaps(&name(Pace::Quick, loops))),
            insert: Quantiles::of(inserts),
        })
    }

    /// The latencies of single committed inserts of a row of the same size, on an idle connection.
    async fn inserts(&self) -> anyhow::Result<Vec<Duration>> {
        const WARM_UP: usize = 20;
        let mut insert = Insert::connect(self.url).await?;
        let mut times = Vec::new();
        for _ in 0..self.size.inserts / ROUNDS + WARM_UP {
            tokio::time::sleep(Duration::from_millis(10)).await;
            let began = Instant::now();
            insert.turn(ANSWER).await?;
            times.push(began.elapsed());
        }
        Ok(times.split_off(WARM_UP))
    }

    /// A group of few loops, a group of many in the same worker, and the database round trips per
    /// turn.
    async fn groups(&self) -> anyhow::Result<(LoopGroup, LoopGroup, f64)> {
        self.store.set_cap(CONCURRENCY.into()).await?;
        let before = self.store.transactions().await?;
        let worker = self.start_worker().await?;
        self.warm_up().await?;
        self.store.checkpoint().await?;
        self.show_step(&format!("{} loops", self.size.few));
        let few = self.group(&worker, self.size.few).await?;
        self.show_step(&format!("{} loops", self.size.many));
        let many = self.group(&worker, self.size.many).await?;
        // A connection that closes reports the last of its transactions to the statistics.
        worker.stop().await?;
        let turns = (PER_SESSION + self.size.few + self.size.many) * TURNS;
        let round_trips = per(self.store.transactions().await? - before, turns);
        Ok((few, many, round_trips))
    }

    async fn group(&self, worker: &WorkerProcess, loops: usize) -> anyhow::Result<LoopGroup> {
        let peak = PeakMemory::watch(worker.pid()?)?;
        let made = self.spawn(loops, Pace::Slow, self.size.starts).await?;
        let times = self.until_ended(&made).await?;
        Ok(LoopGroup {
            loops,
            rss_kib: peak.kib(),
            conversation_bytes: conversation_bytes(),
            time: Quantiles::of(times),
            turn_overhead: Quantiles::of(self.model.gaps(&name(Pace::Slow, loops))),
        })
    }

    async fn start_worker(&self) -> anyhow::Result<WorkerProcess> {
        WorkerProcess::start(self.url, CONCURRENCY, WorkerKind::Agents(self.model.config())).await
    }

    /// Makes every connection prepare its statements.
    async fn warm_up(&self) -> anyhow::Result<()> {
        let made = self.spawn(PER_SESSION, Pace::Warm, Duration::ZERO).await?;
        self.until_ended(&made).await?;
        Ok(())
    }

    async fn spawn(
        &self,
        loops: usize,
        pace: Pace,
        over: Duration,
    ) -> anyhow::Result<SpawnedLoops> {
        let began = Instant::now();
        let sessions = loops.div_ceil(PER_SESSION);
        let mut made =
            SpawnedLoops { sessions: Vec::new(), answers: self.model.answers() + loops * TURNS };
        for nth in 0..sessions {
            let due = began + over.mul_f64(share(nth, sessions));
            tokio::time::sleep_until(due.into()).await;
            let id = uuid::Uuid::now_v7().to_string();
            let new = NewSession {
                tenant: "bench".to_owned(),
                name: id.clone(),
                ..NewSession::default()
            };
            let session = self.store.create_session(&new).await?.id;
            let count = PER_SESSION.min(loops - nth * PER_SESSION);
            let tasks: Vec<_> =
                (0..count).map(|n| task(&name(pace, loops), &format!("{id}/{n}"))).collect();
            self.store.spawn(session, &tasks, None).await?;
            made.sessions.push(session);
        }
        Ok(made)
    }

    /// The time of each loop, from its claim to its end, when all have ended.
    async fn until_ended(&self, made: &SpawnedLoops) -> anyhow::Result<Vec<Duration>> {
        let began = Instant::now();
        // The database is queried only after the last model answer, so that the queries of this
        // process do not disturb the measurement.
        while self.model.answers() < made.answers || self.store.has_unfinished().await? {
            ensure!(began.elapsed() < MAX_WAIT, "the loops did not end within {MAX_WAIT:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let attempts = self.store.attempts(&made.sessions).await?;
        ensure!(attempts.iter().all(|attempt| attempt.completed), "not all loops completed");
        let unexpected = self.model.unexpected();
        ensure!(unexpected == 0, "{unexpected} requests matched no rule of the scripted model");
        Ok(attempts.into_iter().map(|attempt| attempt.time).collect())
    }
}

/// Loops that were spawned.
struct SpawnedLoops {
    sessions: Vec<SessionId>,
    /// The total of model answers when these loops have all of theirs.
    answers: usize,
}

/// The start of an assignment, which selects the rule of the scripted model.
fn name(pace: Pace, loops: usize) -> String {
    format!("{} loop of {loops}", pace.word())
}

fn task(name: &str, id: &str) -> NewTask {
    let agent_config = AgentConfig {
        system_prompt: SYSTEM_PROMPT.to_owned(),
        model: model::NAME.to_owned(),
        ..AgentConfig::default()
    };
    let config: Map<String, Value> = serde_json::to_value(agent_config)
        .ok()
        .and_then(|value| value.as_object().cloned())
        .unwrap_or_default();
    NewTask {
        agent: "bench".to_owned(),
        assignment: format!("{name}: {id}"),
        config,
        ..NewTask::default()
    }
}

/// The size of the conversation of a loop during its last turn.
fn conversation_bytes() -> usize {
    let assignment = task(&name(Pace::Slow, FULL.many), &uuid::Uuid::nil().to_string()).assignment;
    SYSTEM_PROMPT.len() + assignment.len() + (TURNS - 1) * ANSWER.len()
}

#[expect(clippy::cast_precision_loss, reason = "counts in a benchmark are far below 2^52")]
fn per(count: i64, of: usize) -> f64 {
    count as f64 / of as f64
}

#[expect(clippy::cast_precision_loss, reason = "counts in a benchmark are far below 2^52")]
fn share(nth: usize, of: usize) -> f64 {
    nth as f64 / of as f64
}
