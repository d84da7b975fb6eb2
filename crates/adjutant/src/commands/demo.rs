//! `adjutant demo`: the life of tasks in a few seconds, on a throwaway PostgreSQL.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use adjutant_agent::{Outcome, SessionId, TaskNumber};
use adjutant_store::{NewSession, NewTask, Store, Tally};
use anyhow::{Context, ensure};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use crate::output::print_line;
use crate::private_postgres::{DATABASE, Place, PrivatePostgres};
use crate::worker_processes::WorkerProcess;

/// Show the life of tasks: the cap held, a worker killed, every task finished once
///
/// Starts worker processes on a throwaway PostgreSQL, and kills one of them with -9. All of it is gone afterwards. This release
/// has no models yet: what the tasks do is waiting.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Print only one JSON object at the end
    #[arg(long)]
    json: bool,
}

const CAP: i32 = 4;
const WORKERS: usize = 3;
/// So that no worker has all of the slots.
const CONCURRENCY: u16 = 2;
const SESSIONS: [&str; 3] = ["billing", "search", "release"];
const TASKS_EACH: usize = 16;
const TURNS: i32 = 3;
/// The shortest there is: nobody wants to watch 30 seconds of it.
const LEASE_SECONDS: &str = "2";

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let say = |line: &str| if arguments.json { Ok(()) } else { print_line(line) };
    let started = Instant::now();
    let postgres = PrivatePostgres::start(Place::Throwaway).await?;
    let url = postgres.url(DATABASE);
    let schema = Store::migrate(&url).await?.to;
    let store = Store::open(&url, 4).await?;
    say(&format!(
        "PostgreSQL {} is up with schema {schema} after {:.1} s.",
        postgres.server_version(),
        started.elapsed().as_secs_f64()
    ))?;
    let facts = Demo { store: &store, url: &url, quiet: arguments.json }.play(&say).await?;
    store.close().await;
    postgres.stop().await?;
    if arguments.json {
        print_line(&facts.to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}

struct Demo<'a> {
    store: &'a Store,
    url: &'a str,
    quiet: bool,
}

impl Demo<'_> {
    async fn play(&self, say: &impl Fn(&str) -> anyhow::Result<()>) -> anyhow::Result<serde_json::Value> {
        self.store.set_cap(CAP).await?;
        let sessions = self.spawn().await?;
        let total = SESSIONS.len() * TASKS_EACH;
        say(&format!(
            "{} sessions spawned {total} tasks of {TURNS} turns. The fleet may run {CAP} at once.",
            SESSIONS.len()
        ))?;
        let mut workers = Vec::new();
        for _ in 0..WORKERS {
            workers.push(
                WorkerProcess::start(self.url, CONCURRENCY, &["--lease-seconds", LEASE_SECONDS]).await?,
            );
        }
        say(&format!("{WORKERS} worker processes begin. One of them is going to be killed with -9."))?;
        let progress = self.progress(total)?;
        let mut watch = Watch { store: self.store, sessions: &sessions, progress: &progress, most: 0 };
        watch.until("", |tally| tally.completed * 4 >= i64::try_from(total).unwrap_or(0)).await?;
        let held = self.kill_the_busiest(&mut workers).await?;
        let news = format!("A worker was killed with -9. It had {held} tasks in its hands.");
        progress.suspend(|| say(&news))?;
        watch.until("one worker is dead", |tally| tally.unfinished() == 0).await?;
        progress.finish_and_clear();
        let most = watch.most;
        for worker in workers {
            worker.kill().await?;
        }
        self.tell(&sessions, held, most, say).await
    }

    async fn spawn(&self) -> anyhow::Result<Vec<SessionId>> {
        let config = serde_json::json!({"rehearsal": {"turns": TURNS, "turn_ms": 80}});
        let task = NewTask {
            agent: "researcher".to_owned(),
            assignment: "Find out what happened.".to_owned(),
            config: config.as_object().cloned().unwrap_or_default(),
            queue: true,
            ..NewTask::default()
        };
        let mut sessions = Vec::new();
        for name in SESSIONS {
            let new =
                NewSession { tenant: "demo".to_owned(), name: name.to_owned(), ..NewSession::default() };
            let session = self.store.create_session(&new).await?.id;
            self.store.spawn(session, &vec![task.clone(); TASKS_EACH], None).await?;
            sessions.push(session);
        }
        Ok(sessions)
    }

    fn progress(&self, total: usize) -> anyhow::Result<ProgressBar> {
        let progress = if self.quiet { ProgressBar::hidden() } else { ProgressBar::new(total as u64) };
        let style = ProgressStyle::with_template("[{bar:30}] {pos}/{len} finished  {msg}")?;
        progress.set_style(style.progress_chars("=> "));
        Ok(progress)
    }

    /// Kills the worker that runs the most tasks, while it runs some; how many it had.
    async fn kill_the_busiest(&self, workers: &mut Vec<WorkerProcess>) -> anyhow::Result<i64> {
        loop {
            let busiest = self.store.busy_workers().await?.into_iter().next();
            if let Some((id, held)) = busiest
                && let Some(place) = workers.iter().position(|worker| worker.id() == id)
            {
                workers.swap_remove(place).kill().await?;
                return Ok(held);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn tell(
        &self,
        sessions: &[SessionId],
        held: i64,
        most: i64,
        say: &impl Fn(&str) -> anyhow::Result<()>,
    ) -> anyhow::Result<serde_json::Value> {
        let (mut completed, mut resumed) = (0, 0);
        for session in sessions {
            for number in 1..=TASKS_EACH {
                let number = TaskNumber(i32::try_from(number)?);
                let collected = self.store.collect(*session, number, None).await?;
                ensure!(matches!(collected.outcome, Outcome::Completed { .. }), "{number} did not complete");
                completed += 1;
                resumed += i64::from(collected.status.attempt > 1);
            }
        }
        let total = SESSIONS.len() * TASKS_EACH;
        let violations = self.store.violations().await?.len();
        let as_promised = completed == total && violations == 0 && most <= i64::from(CAP);
        ensure!(as_promised, "the demo found a bug: please report it");
        say(&format!(
            "When its leases had run out, the others went on with {resumed} of its tasks from their last stored turn."
        ))?;
        say(&format!(
            "{completed} of {total} tasks finished, each once. Never more than {most} ran at a time."
        ))?;
        say(&format!("Broken invariants: {violations}."))?;
        Ok(serde_json::json!({
            "tasks": total, "completed": completed, "held_by_the_killed": held, "resumed": resumed, "cap": CAP,
            "most_at_once": most, "violations": violations,
        }))
    }
}

struct Watch<'a> {
    store: &'a Store,
    sessions: &'a [SessionId],
    progress: &'a ProgressBar,
    /// The most that were ever seen to run at once.
    most: i64,
}

impl Watch<'_> {
    /// Shows how things stand until they stand as wanted.
    async fn until(&mut self, news: &str, wanted: impl Fn(&Tally) -> bool) -> anyhow::Result<()> {
        let mut tick = tokio::time::interval(Duration::from_millis(20));
        loop {
            tick.tick().await;
            let slots = self.store.slots().await?;
            let tally = self.store.tally(self.sessions).await?;
            self.most = self.most.max(slots.used);
            self.progress.set_position(u64::try_from(tally.completed).context("a count is not negative")?);
            self.progress.set_message(format!(
                "{} of {} slots in use, {} queued  {news}",
                slots.used, slots.cap, tally.queued
            ));
            if wanted(&tally) {
                return Ok(());
            }
        }
    }
}
