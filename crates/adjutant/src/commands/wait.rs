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
use crate::table::{items, text};

/// Wait until tasks have ended
///
/// It waits until one of the tasks has ended, or with --all until all have, and prints a line for
/// each task that has ended. Without ids it waits for the active tasks of the session. Results stay
/// available until they are collected. The wait survives a restart of the server. Ctrl-C ends the
/// wait, not the tasks.
#[derive(Debug, Args)]
#[command(after_long_help = examples!("  adjutant wait t_03                       until it has ended
  adjutant wait t_03 t_04                  until one of them has
  adjutant wait t_03 t_04 --all            until all of them have
  adjutant wait                            until one of the active tasks of the session has
  adjutant wait --all                      until all of those have that are active now
  adjutant wait t_03 --timeout 10m || echo 'still running'
"))]
pub struct Arguments {
    /// The ids of the tasks, as printed by `spawn` [default: the active tasks of the session]
    #[arg(value_name = "TASK_ID")]
    tasks: Vec<String>,

    /// Return when one of the tasks has ended, which is the default
    #[arg(long, conflicts_with = "all")]
    any: bool,

    /// Return when all of the tasks have ended
    #[arg(long)]
    all: bool,

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
    let mode = if arguments.all { WaitMode::All } else { WaitMode::Any };
    let all_flag = if arguments.all { " --all" } else { "" };
    let repeat_flags =
        format!("{}{}", arguments.session.repeat_flags(), arguments.server.repeat_flags(&client));
    let command =
        format!("adjutant wait{}{all_flag}{repeat_flags}", id_arguments(&arguments.tasks));
    match wait.wait(&arguments.tasks, mode).await? {
        WaitOutcome::Ended(answer) => {
            let ended = items(&answer.value, "tasks");
            print_answer(&client, &answer, || end_lines(ended))?;
            if ended.is_empty() {
                note!("adjutant: this session has no active task");
            }
            let is_ended = |id: &String| ended.iter().any(|task| text(task, "task_id") == *id);
            let left: Vec<String> =
                arguments.tasks.iter().filter(|id| !is_ended(id)).cloned().collect();
            if !left.is_empty() {
                let ids = id_arguments(&left);
                note!(
                    "adjutant: not ended yet:{ids}. Wait for all with: adjutant wait{ids} --all{repeat_flags}"
                );
            }
            Ok(exit_for(ended).into())
        }
        WaitOutcome::TimedOut(answer) => {
            if let Some(answer) = answer {
                print_answer(&client, &answer, || end_lines(items(&answer.value, "tasks")))?;
            }
            let whose = if arguments.all { "not all tasks have" } else { "no task has" };
            note!("adjutant: {whose} ended. Continue with: {command}");
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
