//! `adjutant sessions`: where orchestrators work.

mod carried;

use std::io::{BufRead, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::client::Form;
use crate::commands::reach::{Reach, show};
use crate::exit::{Exit, Told, examples};
use crate::table::{Column, Look, items, table, text};

/// List, make, show, change, archive and delete sessions
///
/// A session has its own agents, tasks and shared context. The other commands make theirs when they need it.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, after_long_help = examples!("  adjutant sessions
  adjutant sessions create nightly --model main
  adjutant sessions archive nightly            read-only from now on; what runs may end
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
    /// The most to show
    #[arg(long, value_name = "N")]
    limit: Option<u16>,

    /// Go on where a page ended: its next_cursor
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,

    #[command(flatten)]
    reach: Reach,
}

#[derive(Debug, Subcommand)]
enum Action {
    Create(Create),
    Show(carried::Show),
    Change(carried::Change),
    Archive(Archive),
    Delete(Delete),
}

/// Make a session
#[derive(Debug, Args)]
#[command(after_long_help = examples!("  adjutant sessions create                     the server finds a name, which is printed
  adjutant sessions create nightly --model main --metadata owner=ops
"))]
struct Create {
    /// Its name [default: one that the server finds]
    #[arg(value_name = "SESSION")]
    session: Option<String>,

    /// The model of its agents that name none
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,

    /// More about it, as a JSON object
    #[arg(long, value_name = "JSON", value_parser = read_object)]
    metadata: Option<Map<String, Value>>,

    #[command(flatten)]
    carried: carried::Carried,

    #[command(flatten)]
    reach: Reach,
}

/// Make a session read-only
///
/// What runs may end, and results can be collected; nothing new begins.
#[derive(Debug, Args)]
#[command(after_long_help = examples!("  adjutant sessions archive nightly\n"))]
struct Archive {
    #[arg(value_name = "SESSION")]
    session: String,

    #[command(flatten)]
    reach: Reach,
}

/// Delete a session with its tasks, agents and shared context
///
/// What is unfinished is cancelled. Asks first; --yes does not.
#[derive(Debug, Args)]
#[command(after_long_help = examples!("  adjutant sessions delete nightly --yes\n"))]
struct Delete {
    #[arg(value_name = "SESSION")]
    session: String,

    /// Do not ask
    #[arg(long, short)]
    yes: bool,

    #[command(flatten)]
    reach: Reach,
}

fn read_object(said: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(said).map_err(|error| format!("must be a JSON object ({error})"))
}

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    match arguments.action {
        None => list(arguments.list).await,
        Some(Action::Create(arguments)) => create(arguments).await,
        Some(Action::Show(arguments)) => carried::show_one(arguments).await,
        Some(Action::Change(arguments)) => carried::change(arguments).await,
        Some(Action::Archive(arguments)) => archive(arguments).await,
        Some(Action::Delete(arguments)) => delete(arguments).await,
    }
}

async fn list(arguments: List) -> anyhow::Result<ExitCode> {
    let client = arguments.reach.client()?;
    let limit = arguments.limit.map(|limit| ("limit", limit.to_string()));
    let cursor = arguments.cursor.map(|cursor| ("cursor", cursor));
    let answer = client.get(&["v1", "sessions"], limit.into_iter().chain(cursor).collect()).await?;
    let sessions = items(&answer.value, "sessions");
    show(&client, &answer, || match sessions {
        [] => String::new(),
        sessions => as_table(sessions, Look::of_stdout()),
    })?;
    if client.form() == Form::Plain {
        match (sessions.is_empty(), text(&answer.value, "next_cursor")) {
            (true, _) => eprintln!("adjutant: no sessions yet"),
            (false, next) if !next.is_empty() => eprintln!("adjutant: there are more: --cursor {next}"),
            (false, _) => {}
        }
    }
    Ok(Exit::Done.into())
}

fn as_table(sessions: &[Value], look: Look) -> String {
    let columns =
        [Column::Name("SESSION"), Column::State("STATE"), Column::Number("KEYS"), Column::Number("TOKENS")];
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
    table(&columns, &sessions.iter().map(row).collect::<Vec<_>>(), look)
}

async fn create(arguments: Create) -> anyhow::Result<ExitCode> {
    let client = arguments.reach.client()?;
    let mut body = Map::new();
    body.extend(arguments.session.map(|session| ("session_id".to_owned(), json!(session))));
    body.extend(arguments.model.map(|model| ("model".to_owned(), json!(model))));
    body.extend(arguments.metadata.map(|metadata| ("metadata".to_owned(), Value::Object(metadata))));
    body.extend(arguments.carried.fields());
    let answer = client.post(&["v1", "sessions"], Value::Object(body)).await?;
    show(&client, &answer, || text(&answer.value, "session_id"))?;
    Ok(Exit::Done.into())
}

async fn archive(arguments: Archive) -> anyhow::Result<ExitCode> {
    let client = arguments.reach.client()?;
    let answer = client.post(&["v1", "sessions", &arguments.session, "archive"], json!({})).await?;
    show(&client, &answer, || format!("{} is archived.", arguments.session))?;
    Ok(Exit::Done.into())
}

async fn delete(arguments: Delete) -> anyhow::Result<ExitCode> {
    let client = arguments.reach.client()?;
    if !arguments.yes && !is_meant(&arguments.session)? {
        return Ok(Exit::Error.into());
    }
    client.delete(&["v1", "sessions", &arguments.session]).await?;
    if client.form() == Form::Plain {
        eprintln!("adjutant: {} is deleted", arguments.session);
    }
    Ok(Exit::Done.into())
}

/// Asks whoever sits there; a script has to say it on the command line.
fn is_meant(session: &str) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        return Err(
            Told::usage("deleting a session deletes everything in it: say --yes if that is meant").into()
        );
    }
    let mut stderr = std::io::stderr();
    write!(stderr, "Delete {session:?} with its tasks, agents and shared context? [y/N] ")?;
    stderr.flush()?;
    let mut said = String::new();
    std::io::stdin().lock().read_line(&mut said).context("cannot read standard input")?;
    Ok(matches!(said.trim(), "y" | "Y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Paint;

    #[test]
    fn sessions_are_a_table() {
        let sessions = json!([
            {"session_id": "default", "archived": false, "key_count": 2, "total_size_tokens": 1234},
            {"session_id": "nightly", "archived": true, "key_count": 0, "total_size_tokens": 0},
        ]);
        let shown = as_table(sessions.as_array().unwrap(), Look { width: 80, paint: Paint::Plain });
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
