//! `adjutant wait`: until tasks have ended.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::Value;

use crate::commands::reach::{InSession, Reach, show};
use crate::commands::tell;
use crate::commands::waiting::{Enough, Waited, Waiting, exit_of};
use crate::exit::{Exit, examples};
use crate::moment::read_span;
use crate::table::items;

/// Wait until tasks have ended
///
/// Prints a line for each that has ended; their results stay until they are collected. Without ids it waits for any task of
/// the session. A restart of the server does not disturb it, and Ctrl-C ends the waiting, not the tasks.
#[derive(Debug, Args)]
#[command(after_long_help = examples!("  adjutant wait t_03                       until it has ended
  adjutant wait t_03 t_04 t_05             until all of them have
  adjutant wait t_03 t_04 --any            until one of them has
  adjutant wait                            until something of the session has
  adjutant wait t_03 --timeout 10m || echo 'still at it'
"))]
pub struct Arguments {
    /// The tasks, as `spawn` named them [default: whatever is active in the session]
    #[arg(value_name = "TASK_ID")]
    tasks: Vec<String>,

    /// One that has ended is enough
    #[arg(long)]
    any: bool,

    /// Wait no longer than this: 90, 90s, 15m, 2h [default: as long as it takes]
    #[arg(long, value_name = "TIME", value_parser = read_span)]
    timeout: Option<Duration>,

    #[command(flatten)]
    session: InSession,

    #[command(flatten)]
    reach: Reach,
}

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let client = arguments.reach.client()?;
    let until = arguments.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let waiting = Waiting { client: &client, session: arguments.session.name(), until };
    let enough = if arguments.any || arguments.tasks.is_empty() { Enough::Any } else { Enough::All };
    let again = format!("{}{}", arguments.session.again(), arguments.reach.again(&client));
    let again = format!("adjutant wait{}{again}", named(&arguments.tasks));
    match waiting.wait(&arguments.tasks, enough).await? {
        Waited::Ended(answer) => {
            let ended = items(&answer.value, "tasks");
            show(&client, &answer, || lines(ended))?;
            if ended.is_empty() {
                eprintln!("adjutant: nothing is active in this session, and all that has ended is known");
            }
            Ok(exit_of(ended).into())
        }
        Waited::TimedOut(answer) => {
            if let Some(answer) = answer {
                show(&client, &answer, || lines(items(&answer.value, "tasks")))?;
            }
            eprintln!("adjutant: not yet. Wait on with: {again}");
            Ok(Exit::NotReady.into())
        }
        Waited::Interrupted(by) => {
            eprintln!("adjutant: the work goes on. Wait on with: {again}");
            Err(by.into())
        }
    }
}

fn lines(ended: &[Value]) -> String {
    ended.iter().map(tell::ended).collect::<Vec<_>>().join("\n")
}

/// The ids, as they stand behind a command.
pub fn named(ids: &[String]) -> String {
    ids.iter().map(|id| format!(" {id}")).collect()
}
