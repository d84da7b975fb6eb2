//! `adjutant wait`: waits until tasks have ended.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::Value;

use crate::commands::server_args::{ServerArgs, SessionArgs, print_answer};
use crate::commands::task_text;
use crate::commands::task_wait::{TaskWait, WaitMode, WaitOutcome, exit_for};
use crate::exit::{Exit, examples};
use crate::moment::parse_duration;
use crate::output::note;
use crate::table::items;

/// Wait until tasks have ended
///
/// Prints a line for each task that has ended. Results stay available until they are collected.
/// Without ids it waits for any active task of the session. The wait survives a restart of the
/// server. Ctrl-C ends the wait, not the tasks.
#[derive(Debug, Args)]
#[command(after_long_help = examples!("  adjutant wait t_03                       until it has ended
  adjutant wait t_03 t_04 t_05             until all of them have
  adjutant wait t_03 t_04 --any            until one of them has
  adjutant wait                            until any task of the session has
  adjutant wait t_03 --timeout 10m || echo 'still running'
"))]
pub struct Arguments {
    /// The ids of the tasks, as printed by `spawn` [default: any active task of the session]
    #[arg(value_name = "TASK_ID")]
    tasks: Vec<String>,

    /// Return when one of the tasks has ended
    #[arg(long)]
    any: bool,

    /// The longest time to wait: 90, 90s, 15m, 2h [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<Duration>,

    #[command(flatten)]
    session: SessionArgs,

    #[command(flatten)]
    server: ServerArgs,
}

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let client = arguments.server.client()?;
    let deadline = arguments.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let wait = TaskWait { client: &client, session: arguments.session.name(), deadline };
    let mode =
        if arguments.any || arguments.tasks.is_empty() { WaitMode::Any } else { WaitMode::All };
    let repeat_flags =
        format!("{}{}", arguments.session.repeat_flags(), arguments.server.repeat_flags(&client));
    let command = format!("adjutant wait{}{repeat_flags}", id_arguments(&arguments.tasks));
    match wait.wait(&arguments.tasks, mode).await? {
        WaitOutcome::Ended(answer) => {
            let ended = items(&answer.value, "tasks");
            print_answer(&client, &answer, || end_lines(ended))?;
            if ended.is_empty() {
                note!("adjutant: this session has no active task");
            }
            Ok(exit_for(ended).into())
        }
        WaitOutcome::TimedOut(answer) => {
            if let Some(answer) = answer {
                print_answer(&client, &answer, || end_lines(items(&answer.value, "tasks")))?;
            }
            note!("adjutant: not all tasks have ended. Continue with: {command}");
            Ok(Exit::NotReady.into())
        }
        WaitOutcome::Interrupted(by) => {
            note!("adjutant: the tasks continue. Wait again with: {command}");
            Err(by.into())
        }
    }
}

fn end_lines(ended: &[Value]) -> String {
    ended.iter().map(task_text::end_line).collect::<Vec<_>>().join("\n")
}

/// The ids as arguments of a command line.
pub fn id_arguments(ids: &[String]) -> String {
    ids.iter().map(|id| format!(" {id}")).collect()
}
