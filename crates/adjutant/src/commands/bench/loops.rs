//! `adjutant bench loops`: what a thousand agent loops in one worker cost, beside what their model takes.

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
use super::memory::Peak;
use super::progress;
use super::report::Quantiles;
use crate::open_files;
use crate::private_postgres::{DATABASE, DataLocation, PrivatePostgres};
use crate::worker_processes::{WorkerKind, WorkerProcess};

/// A thousand agent loops in one worker: their time, their memory, and what each turn costs the database
///
/// Everything runs on a throwaway PostgreSQL with fsync on, with one worker process and a scripted model that streams its
/// answers; a loop has 5 turns without tools. The same with 10 loops, and a plain committed insert of a turn, are measured in
/// the same run. Takes about a minute. Linux only: memory is read from /proc.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  adjutant bench loops              the table
  adjutant bench loops --json       one object with stable keys: slowdown_1000_vs_10, kib_per_loop,
                                    turn_overhead_vs_insert, commits_per_turn, and what they come from
")]
pub struct Arguments {
    /// Print one JSON object
    #[arg(long)]
    json: bool,

    /// For tests: a few loops with a fast model, whose figures mean nothing
    #[arg(long, hide = true)]
    tiny: bool,
}

/// Loops that a session starts at once, as one orchestrator would.
const PER_SESSION: usize = 5;
const CONCURRENCY: u16 = 1000;
const ROUNDS: usize = 4;
const SYSTEM_PROMPT: &str =
    "You take part in a measurement. Say what you are told to say, at length.";
/// A run that takes longer than all others together has hung.
const PATIENCE: Duration = Duration::from_secs(120);

/// How much is measured.
#[derive(Debug, Clone, Copy)]
struct Size {
    few: usize,
    many: usize,
    /// Over which the starts of each are spread.
    starts: Duration,
    /// The model's time for an answer.
    answer: Duration,
    /// Loops whose turns are timed, and the inserts to compare them with; in all rounds together.
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
    progress.set_message("starting a throwaway PostgreSQL");
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
    fn say(&self, what: &str) {
        self.progress.set_message(what.to_owned());
    }

    /// What a turn costs when nobody has to wait for anybody: one loop at a time. Loops and inserts take turns, so that
    /// whatever else happens on this machine happens to both.
    async fn costs(&self) -> anyhow::Result<TurnCosts> {
        let worker = self.start_worker().await?;
        self.warm_up().await?;
        let loops = self.size.timed / ROUNDS;
        let (mut inserts, mut commits) = (Vec::new(), 0);
        for round in 1..=ROUNDS {
            self.say(&format!("single inserts and single turns, {round} of {ROUNDS}"));
            inserts.extend(self.inserts().await?);
            // All are there before the first begins, so that only what the worker commits is counted.
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

    /// A single committed insert of a row of the same size, on a connection that is idle.
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

    /// The same loops, few and many, in one worker; and its round trips to the database for each of their turns.
    async fn groups(&self) -> anyhow::Result<(LoopGroup, LoopGroup, f64)> {
        self.store.set_cap(CONCURRENCY.into()).await?;
        let before = self.store.transactions().await?;
        let worker = self.start_worker().await?;
        self.warm_up().await?;
        self.store.checkpoint().await?;
        self.say(&format!("{} loops", self.size.few));
        let few = self.group(&worker, self.size.few).await?;
        self.say(&format!("{} loops", self.size.many));
        let many = self.group(&worker, self.size.many).await?;
        // Connections tell of their transactions when they are closed, at the latest.
        worker.stop().await?;
        let turns = (PER_SESSION + self.size.few + self.size.many) * TURNS;
        let round_trips = per(self.store.transactions().await? - before, turns);
        Ok((few, many, round_trips))
    }

    async fn group(&self, worker: &WorkerProcess, loops: usize) -> anyhow::Result<LoopGroup> {
        let peak = Peak::watch(worker.pid()?)?;
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

    /// So that connections have their plans.
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
        // The database is asked when there is something to hear, and has nothing else to do with us until then.
        while self.model.answers() < made.answers || self.store.has_unfinished().await? {
            ensure!(began.elapsed() < PATIENCE, "the loops did not end within {PATIENCE:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let attempts = self.store.attempts(&made.sessions).await?;
        ensure!(attempts.iter().all(|attempt| attempt.completed), "not all loops completed");
        let unexpected = self.model.unexpected();
        ensure!(unexpected == 0, "the model did not expect {unexpected} of the requests");
        Ok(attempts.into_iter().map(|attempt| attempt.time).collect())
    }
}

/// Loops that were spawned.
struct SpawnedLoops {
    sessions: Vec<SessionId>,
    /// As many as the model has given in all, when it has given all of theirs.
    answers: usize,
}

/// The first words of an assignment: which measurement it belongs to.
fn name(pace: Pace, loops: usize) -> String {
    format!("{} loop of {loops}", pace.word())
}

fn task(name: &str, id: &str) -> NewTask {
    let spec = AgentConfig {
        system_prompt: SYSTEM_PROMPT.to_owned(),
        model: model::NAME.to_owned(),
        ..AgentConfig::default()
    };
    let config: Map<String, Value> = serde_json::to_value(spec)
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

/// What a loop has to remember, when its last turn is under way.
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
