//! `adjutant cancel`: stops tasks.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use crate::client::Form;
use crate::commands::reach::{InSession, Reach};
use crate::commands::tell;
use crate::exit::{Exit, examples};
use crate::output::print_line;
use crate::table::text;

/// Stop tasks, and all that they delegated
///
/// A task that waits never runs; one that runs stops its model call within a second. What it had written until then is printed.
/// One that has ended stays as it is.
#[derive(Debug, Args)]
#[command(after_long_help = examples!("  adjutant cancel t_03
  adjutant cancel t_03 t_04 --session nightly
  adjutant cancel t_03 --json | jq -r .partial_result
"))]
pub struct Arguments {
    /// The tasks, as `spawn` named them
    #[arg(value_name = "TASK_ID", required = true)]
    tasks: Vec<String>,

    #[command(flatten)]
    session: InSession,

    #[command(flatten)]
    reach: Reach,
}

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let client = arguments.reach.client()?;
    for id in &arguments.tasks {
        let call = json!({"action": "cancel", "task_id": id});
        let answer = client.subagent(arguments.session.name(), &call).await?;
        match client.form() {
            Form::Json => print_line(&answer.text)?,
            Form::Plain => {
                eprintln!("adjutant: {}", tell::ended(&answer.value));
                let partial = text(&answer.value, "partial_result");
                if !partial.is_empty() {
                    print_line(&partial)?;
                }
            }
        }
    }
    Ok(Exit::Done.into())
}
