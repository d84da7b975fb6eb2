//! `adjutant demo`: a story of delegation in a few seconds, on a throwaway PostgreSQL and a scripted model.

mod fleet;
mod incident;
mod orchestrator;
mod proof;
mod stage;

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use adjutant_agent::Budget;
use adjutant_script::{Options, ScriptServer};
use adjutant_store::{NewSession, Store};
use anyhow::Context;
use clap::Args;
use tempfile::TempDir;

use self::fleet::Fleet;
use self::orchestrator::Orchestrator;
use self::proof::{Calls, Facts};
use self::stage::{Shown, Stage, Watch};
use crate::output::print_line;
use crate::private_postgres::{DATABASE, Place, PrivatePostgres};

/// Show delegation at work: agents, shared context, a worker killed, nothing lost or paid twice
///
/// An orchestrator looks into an incident with researchers, a writer and a remediator that it defines on the way. Worker
/// processes run them, on a throwaway PostgreSQL, with a scripted model on both wires, so no key is needed. One worker is killed
/// with -9 in the middle of an answer. What the demo then says it has checked, in the database and at the model; it exits
/// with 1 if anything of it is not true. All of it is gone afterwards.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  adjutant demo
  adjutant demo --json | jq .stored_asked_again
")]
pub struct Arguments {
    /// Print only one JSON object at the end: what was checked, in figures
    #[arg(long)]
    json: bool,
}

const CAP: i32 = 4;
/// A researcher for each service, the remediator, the writer.
const TASKS: usize = incident::SERVICES.len() + 2;
/// If it takes longer than this, something hangs.
const PATIENCE: Duration = Duration::from_secs(120);

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    let stage = Stage::new(if arguments.json { Shown::Nothing } else { Shown::Everything }, TASKS as u64)?;
    let postgres = PrivatePostgres::start(Place::Throwaway).await?;
    let url = postgres.url(DATABASE);
    let schema = Store::migrate(&url).await?.to;
    let store = Store::open(&url, 4).await?;
    let version = postgres.server_version();
    stage.line(&format!(
        "PostgreSQL {version} is up with schema {schema} after {:.1} s.",
        started.elapsed().as_secs_f64()
    ))?;
    let played = tokio::time::timeout(PATIENCE, play(&store, &url, &stage)).await;
    stage.clear();
    let facts = played
        .unwrap_or_else(|_| Err(anyhow::anyhow!("it is not done after {} s", PATIENCE.as_secs())))
        .context("the demo did not show what it should; please report it")?;
    store.close().await;
    postgres.stop().await?;
    let seconds = started.elapsed().as_secs_f64();
    if arguments.json {
        print_line(&serde_json::to_string(&facts)?)?;
    } else {
        print_line(&format!("\nChecked, in the database and at the model, after {seconds:.1} s:"))?;
        facts.lines().iter().try_for_each(|line| print_line(&format!("  {line}")))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn play(store: &Store, url: &str, stage: &Stage) -> anyhow::Result<Facts> {
    let calls: Arc<Mutex<Calls>> = Arc::default();
    let model = start_model(calls.clone()).await?;
    let dir = TempDir::with_prefix("adjutant-demo-").context("cannot make a temporary directory")?;
    let config = incident::write_files(dir.path(), &model)?;
    store.set_cap(CAP).await?;
    let mut fleet = Fleet::start(store, &model, url, &config).await?;
    stage.line(&format!(
        "{} worker processes take tasks, {CAP} at once in all. A scripted model plays two: on Anthropic's wire and on OpenAI's.\n",
        fleet.size()
    ))?;
    let session = NewSession {
        tenant: "demo".to_owned(),
        name: "slow-shop".to_owned(),
        model: Some("careful".to_owned()),
        budget: Budget { max_cost_nanousd: Some(1_000_000_000), ..Budget::default() },
        ..NewSession::default()
    };
    let session = store.create_session(&session).await?.id;
    let watch = Watch::start(store.clone(), stage.clone());
    let told = Orchestrator { store, session, stage }.tell(&mut fleet).await?;
    let most_at_once = watch.finish().await?;
    fleet.end().await?;
    let calls = std::mem::take(&mut *calls.lock().unwrap_or_else(PoisonError::into_inner));
    proof::check(store, &model, &told, most_at_once, calls).await
}

/// A model that notes when each call began and was over.
async fn start_model(calls: Arc<Mutex<Calls>>) -> anyhow::Result<ScriptServer> {
    let note = move |request: &adjutant_script::Recorded| {
        calls.lock().unwrap_or_else(PoisonError::into_inner).push((request.arrived, Instant::now()));
    };
    let options = Options { on_end: Some(Box::new(note)), ..Options::default() };
    ScriptServer::start_with(incident::script(), options).await.context("cannot start the scripted model")
}
