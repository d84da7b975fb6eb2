//! `adjutant demo`: the life of tasks in half a minute, on a throwaway PostgreSQL.

mod fleet;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use adjutant_agent::{Outcome, SessionId, TaskNumber};
use adjutant_store::{NewSession, NewTask, Store};
use anyhow::ensure;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use self::fleet::{CHILDREN, Fleet, LEAD};
use crate::output::print_line;
use crate::private_postgres::{DATABASE, Place, PrivatePostgres};

/// Show the life of tasks: the cap held, a worker lost, every task ended once
///
/// Everything happens on a throwaway PostgreSQL that is gone afterwards. The workers are loops inside this process, and what
/// their tasks do is waiting: worker processes and models come with the next releases.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Print only one JSON object at the end
    #[arg(long)]
    json: bool,
}

const CAP: i32 = 4;
const SESSIONS: usize = 3;
const TASKS_EACH: usize = 12;

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let say = |line: &str| if arguments.json { Ok(()) } else { print_line(line) };
    let started = Instant::now();
    let postgres = PrivatePostgres::start(Place::Throwaway).await?;
    let url = postgres.url(DATABASE);
    let schema = Store::migrate(&url).await?.to;
    let store = Store::open(&url, 10).await?;
    say(&format!(
        "PostgreSQL {} is up with schema {schema} after {:.1} s.",
        postgres.server_version(),
        started.elapsed().as_secs_f64()
    ))?;
    let facts = story(&store, &say, arguments.json).await?;
    store.close().await;
    postgres.stop().await?;
    if arguments.json {
        print_line(&facts.to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn story(
    store: &Store,
    say: &impl Fn(&str) -> anyhow::Result<()>,
    quiet: bool,
) -> anyhow::Result<serde_json::Value> {
    store.set_cap(CAP).await?;
    let sessions = spawn(store).await?;
    let total = SESSIONS * TASKS_EACH + CHILDREN;
    say(&format!(
        "{SESSIONS} sessions spawned {} tasks. The fleet may run {CAP} at once, and 3 workers begin.",
        SESSIONS * TASKS_EACH
    ))?;
    let progress = if quiet { ProgressBar::hidden() } else { ProgressBar::new(total as u64) };
    progress.set_style(
        ProgressStyle::with_template("[{bar:30}] {pos}/{len} ended  {msg}")?.progress_chars("=> "),
    );
    let fleet = Fleet::start(store, total, progress.clone()).await?;
    let most = watch(store, &fleet, &progress).await?;
    fleet.join().await?;
    progress.finish_and_clear();

    let (mut completed, mut resumed) = (0, 0);
    for (session, tasks) in sessions {
        for number in 1..=tasks {
            let number = TaskNumber(i32::try_from(number)?);
            let collected = store.collect(session, number, None).await?;
            ensure!(matches!(collected.outcome, Outcome::Completed { .. }), "{number} did not complete");
            completed += 1;
            resumed += usize::from(collected.status.attempt > 1);
        }
    }
    let violations = store.violations().await?.len();
    ensure!(
        completed == total && violations == 0 && most <= i64::from(CAP),
        "the demo found a bug: please report it"
    );
    say("One task delegated to two more and waited for them without holding a slot.")?;
    say(
        "One worker died with tasks in its slots; when its leases had run out, others went on from the last stored turn.",
    )?;
    say(&format!(
        "{completed} of {total} tasks completed, each once; {resumed} of them needed more than one attempt."
    ))?;
    say(&format!("Never more than {most} ran at once. Broken invariants: {violations}."))?;
    Ok(serde_json::json!({
        "tasks": total, "completed": completed, "resumed": resumed, "cap": CAP, "most_at_once": most,
        "violations": violations,
    }))
}

/// The sessions, and how many tasks each will have had in the end.
async fn spawn(store: &Store) -> anyhow::Result<Vec<(SessionId, usize)>> {
    let mut sessions = Vec::new();
    for name in ["billing", "search", "release"] {
        let new = NewSession { tenant: "demo".to_owned(), name: name.to_owned(), ..NewSession::default() };
        let session = store.create_session(&new).await?.id;
        let mut tasks = vec![
            NewTask {
                agent: "researcher".to_owned(),
                assignment: "Find out what happened.".to_owned(),
                queue: true,
                ..NewTask::default()
            };
            TASKS_EACH
        ];
        let delegates = sessions.is_empty();
        if delegates {
            tasks[0].agent = LEAD.to_owned();
        }
        store.spawn(session, &tasks, None).await?;
        sessions.push((session, TASKS_EACH + if delegates { CHILDREN } else { 0 }));
    }
    Ok(sessions)
}

/// Shows how the slots stand until all has ended; the most that ever ran at once.
async fn watch(store: &Store, fleet: &Fleet, progress: &ProgressBar) -> anyhow::Result<i64> {
    let mut most = 0;
    let mut tick = tokio::time::interval(Duration::from_millis(20));
    while !fleet.is_done() {
        tick.tick().await;
        let slots = store.slots().await?;
        most = most.max(slots.used);
        progress.set_message(format!(
            "{} of {} slots in use, most {most}  {}",
            slots.used,
            slots.cap,
            fleet.news()
        ));
    }
    Ok(most)
}
