//! `adjutant collect`: takes the result of a task.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::{Answer, CallError, Client, OutputFormat};
use crate::commands::read::whole;
use crate::commands::server_args::{ServerArgs, SessionArgs};
use crate::commands::task_text;
use crate::commands::task_wait::{TaskWait, WaitMode, WaitOutcome};
use crate::exit::{Exit, examples};
use crate::moment::parse_duration;
use crate::output::{note, print_content, print_json};
use crate::signals::interruptible;
use crate::table::text;

/// Print the result of a task and mark it as collected
///
/// The full result goes to standard output, everything else to standard error. A collected task
/// disappears from `adjutant status`; `adjutant read` and `adjutant tasks show` can still show it.
/// If the connection breaks, the command retries, and the result is not lost.
#[derive(Debug, Args)]
#[command(after_long_help = examples!("  adjutant collect t_03
  adjutant collect t_03 > report.md
  adjutant collect t_03 --wait             wait until it has ended
  adjutant collect t_03 --wait --timeout 10m
  adjutant collect t_03 --json | jq -r .result
"))]
pub struct Arguments {
    /// The id of the task, as printed by `spawn`
    #[arg(value_name = "TASK_ID")]
    task: String,

    /// Wait until the task has ended
    #[arg(long)]
    wait: bool,

    /// The longest time to wait: 90, 90s, 15m, 2h [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "wait")]
    timeout: Option<Duration>,

    #[command(flatten)]
    session: SessionArgs,

    #[command(flatten)]
    server: ServerArgs,
}

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let client = arguments.server.client()?;
    let (session, task) = (arguments.session.name(), &arguments.task);
    if arguments.wait {
        let deadline = arguments.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let wait = TaskWait { client: &client, session, deadline };
        let repeat_flags = format!(
            "{}{}",
            arguments.session.repeat_flags(),
            arguments.server.repeat_flags(&client)
        );
        match wait.wait(std::slice::from_ref(task), WaitMode::All).await? {
            WaitOutcome::Ended(_) => {}
            WaitOutcome::TimedOut(_) => {
                note!(
                    "adjutant: {task} has not ended yet. Continue with: adjutant collect {task} --wait{repeat_flags}"
                );
                return Ok(Exit::NotReady.into());
            }
            WaitOutcome::Interrupted(by) => {
                note!(
                    "adjutant: {task} continues. Wait again with: adjutant collect {task} --wait{repeat_flags}"
                );
                return Err(by.into());
            }
        }
    }
    collect(&client, session, task).await
}

/// Collects a task that has ended and prints its result.
pub async fn collect(client: &Client, session: &str, task: &str) -> anyhow::Result<ExitCode> {
    let key = Uuid::now_v7().to_string();
    let call = json!({"action": "collect", "task_id": task, "idempotency_key": key});
    // A wait before this has caught the signals for good.
    let answer = interruptible(async {
        Ok(client.with_retries(async || client.subagent(session, &call).await).await?)
    })
    .await?;
    let completed = text(&answer.value, "status") == "completed";
    match client.format() {
        OutputFormat::Json => print_json(&answer.text)?,
        OutputFormat::Text if completed => {
            note!("adjutant: {}", task_text::end_line(&answer.value));
            print_content(&full_result(client, session, &answer).await)?;
        }
        OutputFormat::Text => {
            note!("adjutant: {}", task_text::end_line(&answer.value));
            let partial = text(&answer.value, "partial_result");
            if !partial.is_empty() {
                note!("adjutant: partial result:\n{partial}");
            }
        }
    }
    Ok(if completed { Exit::Done } else { Exit::TaskFailed }.into())
}

/// The full result. Answers of the tool are truncated for the context of a model.
async fn full_result(client: &Client, session: &str, answer: &Answer) -> String {
    let shown = text(&answer.value, "result");
    if answer.value.get("truncated").and_then(Value::as_bool) != Some(true) {
        return shown;
    }
    let task = text(&answer.value, "task_id");
    whole(client, session, &task, 0).await.unwrap_or_else(|error: CallError| {
        note!(
            "adjutant: the result is truncated ({error}); print all of it with: adjutant read {task}"
        );
        shown
    })
}
