//! `adjutant cancel`: cancels tasks.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use crate::client::OutputFormat;
use crate::commands::server_args::{ServerArgs, SessionArgs};
use crate::commands::task_text;
use crate::exit::{Exit, examples};
use crate::output::{note, print_content, print_json};
use crate::table::text;

/// Cancel tasks and every task that they delegated
///
/// A queued task never starts. A running task stops its model call within a second, and its partial
/// result is printed. A task that has ended does not change.
#[derive(Debug, Args)]
#[command(after_long_help = examples!("  adjutant cancel t_03
  adjutant cancel t_03 t_04 --session nightly
  adjutant cancel t_03 --json | jq -r .partial_result
"))]
pub struct Arguments {
    /// The ids of the tasks, as printed by `spawn`
    #[arg(value_name = "TASK_ID", required = true)]
    tasks: Vec<String>,

    #[command(flatten)]
    session: SessionArgs,

    #[command(flatten)]
    server: ServerArgs,
}

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let client = arguments.server.client()?;
    for id in &arguments.tasks {
        let call = json!({"action": "cancel", "task_id": id});
        let answer = client.subagent(arguments.session.name(), &call).await?;
        match client.format() {
            OutputFormat::Json => print_json(&answer.text)?,
            OutputFormat::Text => {
                note!("adjutant: {}", task_text::end_line(&answer.value));
                let partial = text(&answer.value, "partial_result");
                if !partial.is_empty() {
                    print_content(&partial)?;
                }
            }
        }
    }
    Ok(Exit::Done.into())
}
