//! `adjutant sessions`: manages sessions.

mod profile;

use std::io::{BufRead, IsTerminal};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::client::OutputFormat;
use crate::commands::budget_args::BudgetArgs;
use crate::commands::server_args::{ServerArgs, print_answer};
use crate::exit::{CommandError, Exit, examples};
use crate::output::{Shown, note, print_question};
use crate::table::{Column, OutputStyle, items, table, text};

/// List, create, show, change, archive and delete sessions
///
/// A session has its own agents, tasks and shared context. Other commands create the session that
/// they need.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, after_long_help = examples!("  adjutant sessions
  adjutant sessions create nightly --model main
  adjutant sessions archive nightly            make it read-only; running tasks continue
  adjutant sessions delete nightly --yes       with everything in it
"))]
pub struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,

    #[command(flatten)]
    list: List,
}

#[derive(Debug, Args)]
struct List {
    /// The most entries to show
    #[arg(long, value_name = "N")]
    limit: Option<u16>,

    /// Show the page after this cursor, the next_cursor of the previous page
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,

    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Subcommand)]
enum Action {
    Create(Create),
    Show(profile::Show),
    Change(profile::Change),
    Raise(Raise),
    Archive(Archive),
    Delete(Delete),
}

/// Create a session
#[derive(Debug, Args)]
#[command(after_long_help = examples!("  adjutant sessions create                     with a name that the server chooses and prints
  adjutant sessions create nightly --model main --metadata '{\"owner\": \"ops\"}'
"))]
struct Create {
    /// The name of the session [default: the server chooses one]
    #[arg(value_name = "SESSION")]
    session: Option<String>,

    /// The model of agents that set none
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,

    /// Metadata, as a JSON object
    #[arg(long, value_name = "JSON", value_parser = parse_object)]
    metadata: Option<Map<String, Value>>,

    #[command(flatten)]
    budget: BudgetArgs,

    /// What its tasks do at a limit: fail, or pause until it is raised
    #[arg(long, value_name = "fail|pause", value_parser = ["fail", "pause"])]
    on_budget: Option<String>,

    #[command(flatten)]
    profile: profile::SessionProfile,

    #[command(flatten)]
    server: ServerArgs,
}

/// Raise the budget of a session
///
/// Give the new limits, which must be above what its tasks have used. Tasks that wait for the
/// budget go on.
#[derive(Debug, Args)]
#[command(after_long_help = examples!("  adjutant sessions raise nightly --max-cost-usd 20\n"))]
struct Raise {
    /// The name of the session
    #[arg(value_name = "SESSION")]
    session: String,

    #[command(flatten)]
    limits: BudgetArgs,

    #[command(flatten)]
    server: ServerArgs,
}

/// Make a session read-only
///
/// Running tasks continue and results can be collected, but nothing new starts.
#[derive(Debug, Args)]
#[command(after_long_help = examples!("  adjutant sessions archive nightly\n"))]
struct Archive {
    /// The name of the session
    #[arg(value_name = "SESSION")]
    session: String,

    #[command(flatten)]
    server: ServerArgs,
}

/// Delete a session with its tasks, agents and shared context
///
/// Unfinished tasks are cancelled. Asks for confirmation, unless --yes is given.
#[derive(Debug, Args)]
#[command(after_long_help = examples!("  adjutant sessions delete nightly --yes\n"))]
struct Delete {
    /// The name of the session
    #[arg(value_name = "SESSION")]
    session: String,

    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,

    #[command(flatten)]
    server: ServerArgs,
}

fn parse_object(answer: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(answer).map_err(|error| format!("must be a JSON object ({error})"))
}

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    match arguments.action {
        None => list(arguments.list).await,
        Some(Action::Create(arguments)) => create(arguments).await,
        Some(Action::Show(arguments)) => profile::show_one(arguments).await,
        Some(Action::Change(arguments)) => profile::change(arguments).await,
        Some(Action::Raise(arguments)) => raise(arguments).await,
        Some(Action::Archive(arguments)) => archive(arguments).await,
        Some(Action::Delete(arguments)) => delete(arguments).await,
    }
}

async fn list(arguments: List) -> anyhow::Result<ExitCode> {
    let client = arguments.server.client()?;
    let limit = arguments.limit.map(|limit| ("limit", limit.to_string()));
    let cursor = arguments.cursor.map(|cursor| ("cursor", cursor));
    let answer = client.get(&["v1", "sessions"], limit.into_iter().chain(cursor).collect()).await?;
    let sessions = items(&answer.value, "sessions");
    print_answer(&client, &answer, || match sessions {
        [] => Shown::default(),
        sessions => as_table(sessions, OutputStyle::for_stdout()),
    })?;
    if client.format() == OutputFormat::Text {
        match (sessions.is_empty(), text(&answer.value, "next_cursor")) {
            (true, _) => note!("adjutant: no sessions"),
            (false, next) if !next.is_empty() => {
                note!("adjutant: more with --cursor {next}")
            }
            (false, _) => {}
        }
    }
    Ok(Exit::Done.into())
}

fn as_table(sessions: &[Value], style: OutputStyle) -> Shown {
    let columns = [
        Column::Name("SESSION"),
        Column::State("STATE"),
        Column::Number("KEYS"),
        Column::Number("TOKENS"),
    ];
    let row = |session: &Value| {
        let archived = session.get("archived").and_then(Value::as_bool).unwrap_or(false);
        let state = if archived { "archived" } else { "open" };
        vec![
            text(session, "session_id"),
            state.to_owned(),
            text(session, "key_count"),
            text(session, "total_size_tokens"),
        ]
    };
    table(&columns, &sessions.iter().map(row).collect::<Vec<_>>(), style)
}

async fn create(arguments: Create) -> anyhow::Result<ExitCode> {
    let client = arguments.server.client()?;
    let mut body = Map::new();
    body.extend(arguments.session.map(|session| ("session_id".to_owned(), json!(session))));
    body.extend(arguments.model.map(|model| ("model".to_owned(), json!(model))));
    body.extend(
        arguments.metadata.map(|metadata| ("metadata".to_owned(), Value::Object(metadata))),
    );
    body.extend(arguments.budget.fields());
    body.extend(arguments.on_budget.map(|word| ("on_budget".to_owned(), json!(word))));
    body.extend(arguments.profile.fields());
    let answer = client.post(&["v1", "sessions"], Value::Object(body)).await?;
    print_answer(&client, &answer, || text(&answer.value, "session_id"))?;
    Ok(Exit::Done.into())
}

async fn raise(arguments: Raise) -> anyhow::Result<ExitCode> {
    let client = arguments.server.client()?;
    let limits = Value::Object(arguments.limits.fields());
    let answer = client.post(&["v1", "sessions", &arguments.session, "raise"], limits).await?;
    print_answer(&client, &answer, || format!("The budget of {} was raised.", arguments.session))?;
    Ok(Exit::Done.into())
}

async fn archive(arguments: Archive) -> anyhow::Result<ExitCode> {
    let client = arguments.server.client()?;
    let answer = client.post(&["v1", "sessions", &arguments.session, "archive"], json!({})).await?;
    print_answer(&client, &answer, || format!("{} was archived.", arguments.session))?;
    Ok(Exit::Done.into())
}

async fn delete(arguments: Delete) -> anyhow::Result<ExitCode> {
    let client = arguments.server.client()?;
    if !arguments.yes && !confirm(&arguments.session)? {
        return Ok(Exit::Error.into());
    }
    client.delete(&["v1", "sessions", &arguments.session]).await?;
    if client.format() == OutputFormat::Text {
        note!("adjutant: {} was deleted", arguments.session);
    }
    Ok(Exit::Done.into())
}

/// Asks for confirmation on a terminal. A script must pass --yes.
fn confirm(session: &str) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        return Err(CommandError::usage(
            "this deletes the session and everything in it; confirm with --yes",
        )
        .into());
    }
    print_question(&format!(
        "Delete {session:?} with its tasks, agents and shared context? [y/N] "
    ));
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).context("cannot read standard input")?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Colors;

    #[test]
    fn sessions_are_a_table() {
        let sessions = json!([
            {"session_id": "default", "archived": false, "key_count": 2, "total_size_tokens": 1234},
            {"session_id": "nightly", "archived": true, "key_count": 0, "total_size_tokens": 0},
        ]);
        let shown =
            as_table(sessions.as_array().unwrap(), OutputStyle { width: 80, colors: Colors::Off });
        assert_eq!(
            shown.lines().collect::<Vec<_>>(),
            [
                "SESSION  STATE     KEYS  TOKENS",
                "default  open         2    1234",
                "nightly  archived     0       0"
            ]
        );
    }
}
