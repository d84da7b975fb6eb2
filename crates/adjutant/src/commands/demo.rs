//! `adjutant demo`: delegation in a few seconds, with a temporary PostgreSQL and a scripted model.

mod fleet;
mod incident;
mod orchestrator;
mod output;
mod verification;

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
use self::output::{DemoOutput, SlotMonitor, Verbosity};
use self::verification::{CallTimes, VerifiedFacts};
use crate::output::{print_json, print_line};
use crate::private_postgres::{DATABASE, DataLocation, PrivatePostgres};

/// Show delegation at work: agents, shared context, a killed worker, no work lost or paid twice
///
/// An orchestrator investigates an incident with researchers, a writer, and a remediator that it
/// defines on the way. Worker processes run the agents on a temporary PostgreSQL. The model is a
/// script that speaks both wire formats, so no API key is needed. One worker is killed with SIGKILL
/// in the middle of an answer. At the end the demo checks its claims in the database and in the
/// model's log, prints them, and exits with 1 if one is not true. It leaves no files behind.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  adjutant demo
  adjutant demo --json | jq .stored_requested_again
")]
pub struct Arguments {
    /// Print only the checked figures, as one JSON object
    #[arg(long)]
    json: bool,
}

const CAP: i32 = 4;
/// One researcher for each service, the remediator and the writer.
const TASKS: usize = incident::SERVICES.len() + 2;
/// A demo that takes longer hangs.
const TIMEOUT: Duration = Duration::from_secs(120);

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    let output = DemoOutput::new(
        if arguments.json { Verbosity::Quiet } else { Verbosity::Story },
        TASKS as u64,
    )?;
    let postgres = PrivatePostgres::start(DataLocation::Temporary).await?;
    let url = postgres.url(DATABASE);
    let schema = Store::migrate(&url).await?.to;
    let store = Store::open(&url, 4).await?;
    let version = postgres.server_version();
    output.line(&format!(
        "PostgreSQL {version} with schema {schema} is ready after {:.1} s.",
        started.elapsed().as_secs_f64()
    ))?;
    let finished = tokio::time::timeout(TIMEOUT, run_story(&store, &url, &output)).await;
    output.clear();
    let verified = finished
        .unwrap_or_else(|_| Err(anyhow::anyhow!("it did not finish in {} s", TIMEOUT.as_secs())))
        .context("the demo failed; please report it")?;
    store.close().await;
    postgres.stop().await?;
    let seconds = started.elapsed().as_secs_f64();
    if arguments.json {
        print_json(&serde_json::to_string(&verified)?)?;
    } else {
        print_line(format!(
            "\nVerified in the database and in the model's log after {seconds:.1} s:"
        ))?;
        verified.lines().iter().try_for_each(|line| print_line(format!("  {line}")))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn run_story(store: &Store, url: &str, output: &DemoOutput) -> anyhow::Result<VerifiedFacts> {
    let calls: Arc<Mutex<CallTimes>> = Arc::default();
    let model = start_model(calls.clone()).await?;
    let dir =
        TempDir::with_prefix("adjutant-demo-").context("cannot create a temporary directory")?;
    let config = incident::write_files(dir.path(), &model)?;
    store.set_cap(CAP).await?;
    let mut fleet = Fleet::start(store, &model, url, &config).await?;
    output.line(&format!(
        "{} worker processes run at most {CAP} tasks at once. A scripted model speaks Anthropic's and OpenAI's API.\n",
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
    let monitor = SlotMonitor::start(store.clone(), output.clone());
    let result = Orchestrator { store, session, output }.run(&mut fleet).await?;
    let most_at_once = monitor.finish().await?;
    fleet.stop().await?;
    let calls = std::mem::take(&mut *calls.lock().unwrap_or_else(PoisonError::into_inner));
    verification::check(store, &model, &result, most_at_once, calls).await
}

/// Starts a model that records the start and the end of every call.
async fn start_model(calls: Arc<Mutex<CallTimes>>) -> anyhow::Result<ScriptServer> {
    let record = move |request: &adjutant_script::RecordedRequest| {
        calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push((request.arrived, Instant::now()));
    };
    let options = Options { on_end: Some(Box::new(record)), ..Options::default() };
    ScriptServer::start_with(incident::script(), options)
        .await
        .context("cannot start the scripted model")
}
