//! `adjutant raise`: more budget for a task.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use crate::client::OutputFormat;
use crate::commands::budget_args::BudgetArgs;
use crate::commands::server_args::{ServerArgs, SessionArgs};
use crate::commands::task_text;
use crate::exit::{Exit, examples};
use crate::output::{note, print_json};

/// Raise the budget of a task, which goes on if it waits for that
///
/// Give the new limits, which must be above what is used. A limit that the task does not have
/// cannot be raised. The budget of a task without a parent holds for its whole tree; that of a
/// session is raised by `adjutant sessions raise`. Tasks wait instead of failing if they were
/// spawned with --on-budget pause, or their agent or session says so.
#[derive(Debug, Args)]
#[command(after_long_help = examples!("  adjutant raise t_01 --max-cost-usd 2
  adjutant raise t_01 --max-input-tokens 500000 --session nightly
"))]
pub struct Arguments {
    /// The id of the task, as printed by `spawn`
    #[arg(value_name = "TASK_ID")]
    task: String,

    #[command(flatten)]
    limits: BudgetArgs,

    #[command(flatten)]
    session: SessionArgs,

    #[command(flatten)]
    server: ServerArgs,
}

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let client = arguments.server.client()?;
    let mut call = arguments.limits.fields();
    call.insert("action".to_owned(), json!("raise"));
    call.insert("task_id".to_owned(), json!(arguments.task));
    let answer = client.subagent(arguments.session.name(), &Value::Object(call)).await?;
    match client.format() {
        OutputFormat::Json => print_json(&answer.text)?,
        OutputFormat::Text => note!("adjutant: {}", task_text::progress_line(&answer.value)),
    }
    Ok(Exit::Done.into())
}
