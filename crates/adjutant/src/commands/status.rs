//! `adjutant status`: how far tasks are.

use std::process::ExitCode;

use chrono::Utc;
use clap::Args;
use serde_json::{Value, json};

use crate::client::Form;
use crate::commands::reach::{InSession, Reach, show};
use crate::commands::tell;
use crate::exit::{Exit, examples};
use crate::output::print_line;
use crate::table::{Look, items};

/// Show how far tasks are
///
/// Without ids, those of the session that are not collected yet, the newest first.
#[derive(Debug, Args)]
#[command(after_long_help = examples!("  adjutant status                          everything in the session
  adjutant status t_03
  adjutant status t_03 --json | jq -r .phase
"))]
pub struct Arguments {
    /// The tasks, as `spawn` named them
    #[arg(value_name = "TASK_ID")]
    tasks: Vec<String>,

    #[command(flatten)]
    session: InSession,

    #[command(flatten)]
    reach: Reach,
}

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let client = arguments.reach.client()?;
    let session = arguments.session.name();
    if arguments.tasks.is_empty() {
        let answer = client.get(&["v1", "tasks"], vec![("session", session.to_owned())]).await?;
        let open: Vec<Value> = items(&answer.value, "tasks")
            .iter()
            .filter(|task| task.get("collected_at").is_none_or(Value::is_null))
            .cloned()
            .collect();
        show(&client, &answer, || match open.as_slice() {
            [] => String::new(),
            open => tell::tasks(open, Utc::now(), Look::of_stdout()),
        })?;
        if open.is_empty() && client.form() == Form::Plain {
            eprintln!("adjutant: nothing is under way or uncollected in the session {session:?}");
        }
        return Ok(Exit::Done.into());
    }
    let mut found = Vec::new();
    for id in &arguments.tasks {
        let answer = client.subagent(session, &json!({"action": "status", "task_id": id})).await?;
        match client.form() {
            Form::Json => print_line(&answer.text)?,
            Form::Plain => found.push(answer.value),
        }
    }
    if client.form() == Form::Plain {
        print_line(&tell::tasks(&found, Utc::now(), Look::of_stdout()))?;
    }
    Ok(Exit::Done.into())
}
