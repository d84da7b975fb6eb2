//! `adjutant status`: shows the progress of tasks.

use std::process::ExitCode;

use chrono::Utc;
use clap::Args;
use serde_json::{Value, json};

use crate::client::OutputFormat;
use crate::commands::server_args::{ServerArgs, SessionArgs, print_answer};
use crate::commands::task_text;
use crate::exit::{Exit, examples};
use crate::output::{Shown, note, print_json, print_line};
use crate::table::{OutputStyle, items};

/// Show the progress of tasks
///
/// Without ids: the tasks of the session that have not been collected, newest first.
#[derive(Debug, Args)]
#[command(after_long_help = examples!("  adjutant status                          all uncollected tasks of the session
  adjutant status t_03
  adjutant status t_03 --json | jq -r .phase
"))]
pub struct Arguments {
    /// The ids of the tasks, as printed by `spawn`
    #[arg(value_name = "TASK_ID")]
    tasks: Vec<String>,

    #[command(flatten)]
    session: SessionArgs,

    #[command(flatten)]
    server: ServerArgs,
}

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let client = arguments.server.client()?;
    let session = arguments.session.name();
    if arguments.tasks.is_empty() {
        let answer = client.get(&["v1", "tasks"], vec![("session", session.to_owned())]).await?;
        let open: Vec<Value> = items(&answer.value, "tasks")
            .iter()
            .filter(|task| task.get("collected_at").is_none_or(Value::is_null))
            .cloned()
            .collect();
        print_answer(&client, &answer, || match open.as_slice() {
            [] => Shown::default(),
            open => task_text::table_of_tasks(open, Utc::now(), OutputStyle::for_stdout()),
        })?;
        if open.is_empty() && client.format() == OutputFormat::Text {
            note!("adjutant: the session {session:?} has no uncollected tasks");
        }
        return Ok(Exit::Done.into());
    }
    let mut found = Vec::new();
    for id in &arguments.tasks {
        let answer = client.subagent(session, &json!({"action": "status", "task_id": id})).await?;
        match client.format() {
            OutputFormat::Json => print_json(&answer.text)?,
            OutputFormat::Text => found.push(answer.value),
        }
    }
    if client.format() == OutputFormat::Text {
        print_line(task_text::table_of_tasks(&found, Utc::now(), OutputStyle::for_stdout()))?;
    }
    Ok(Exit::Done.into())
}
