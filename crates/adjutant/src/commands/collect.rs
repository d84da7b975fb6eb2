//! `adjutant collect`: the result of a task, once.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::{Answer, CallError, Client, Form};
use crate::commands::reach::{InSession, Reach};
use crate::commands::read::whole;
use crate::commands::tell;
use crate::commands::waiting::{Enough, Waited, Waiting};
use crate::exit::{Exit, examples};
use crate::moment::read_span;
use crate::output::print_line;
use crate::table::text;

/// Print the result of a task that has ended, and be done with it
///
/// The result goes to standard output, whole and as it is; all else goes to standard error. Afterwards the session no longer
/// knows the task, but `adjutant read` and `adjutant tasks show` do. If the answer is lost on its way, it is asked for again and
/// nothing is lost.
#[derive(Debug, Args)]
#[command(after_long_help = examples!("  adjutant collect t_03
  adjutant collect t_03 > report.md
  adjutant collect t_03 --wait             waits until it has ended
  adjutant collect t_03 --wait --timeout 10m
  adjutant collect t_03 --json | jq -r .result
"))]
pub struct Arguments {
    /// The task, as `spawn` named it
    #[arg(value_name = "TASK_ID")]
    task: String,

    /// Wait until it has ended
    #[arg(long)]
    wait: bool,

    /// Wait no longer than this: 90, 90s, 15m, 2h [default: as long as it takes]
    #[arg(long, value_name = "TIME", value_parser = read_span, requires = "wait")]
    timeout: Option<Duration>,

    #[command(flatten)]
    session: InSession,

    #[command(flatten)]
    reach: Reach,
}

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let client = arguments.reach.client()?;
    let (session, task) = (arguments.session.name(), &arguments.task);
    if arguments.wait {
        let until = arguments.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let waiting = Waiting { client: &client, session, until };
        let again = format!("{}{}", arguments.session.again(), arguments.reach.again(&client));
        match waiting.wait(std::slice::from_ref(task), Enough::All).await? {
            Waited::Ended(_) => {}
            Waited::TimedOut(_) => {
                eprintln!("adjutant: not yet. Wait on with: adjutant collect {task} --wait{again}");
                return Ok(Exit::NotReady.into());
            }
            Waited::Interrupted(by) => {
                eprintln!("adjutant: {task} goes on. Wait on with: adjutant collect {task} --wait{again}");
                return Err(by.into());
            }
        }
    }
    collect(&client, session, task).await
}

/// Collects a task that has ended, and prints what came of it.
pub async fn collect(client: &Client, session: &str, task: &str) -> anyhow::Result<ExitCode> {
    let key = Uuid::now_v7().to_string();
    let call = json!({"action": "collect", "task_id": task, "idempotency_key": key});
    let answer = client.patiently(async || client.subagent(session, &call).await).await?;
    let completed = text(&answer.value, "status") == "completed";
    match client.form() {
        Form::Json => print_line(&answer.text)?,
        Form::Plain if completed => {
            eprintln!("adjutant: {}", tell::ended(&answer.value));
            print_line(&full_result(client, session, &answer).await)?;
        }
        Form::Plain => {
            eprintln!("adjutant: {}", tell::ended(&answer.value));
            let partial = text(&answer.value, "partial_result");
            if !partial.is_empty() {
                eprintln!("adjutant: what it had until then:\n{partial}");
            }
        }
    }
    Ok(if completed { Exit::Done } else { Exit::TaskFailed }.into())
}

/// A view that was cut for a model's context is read to its end: here is none to protect.
async fn full_result(client: &Client, session: &str, answer: &Answer) -> String {
    let shown = text(&answer.value, "result");
    if answer.value.get("truncated").and_then(Value::as_bool) != Some(true) {
        return shown;
    }
    let task = text(&answer.value, "task_id");
    whole(client, session, &task, 0).await.unwrap_or_else(|error: CallError| {
        eprintln!("adjutant: only the beginning follows ({error}); read it all with: adjutant read {task}");
        shown
    })
}
