//! `adjutant tasks`: searches the history.

mod bulk;
mod detail;
mod search;

use std::process::ExitCode;

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use self::bulk::{Selection, Verb};
use self::search::{Filter, TaskPage, find};
use crate::client::{Client, OutputFormat};
use crate::commands::server_args::{DEFAULT_SESSION, ServerArgs, print_answer};
use crate::commands::task_text;
use crate::exit::{CommandError, Exit, examples};
use crate::moment::age;
use crate::output::{Shown, note, print_json, print_line};
use crate::signals::{Interrupted, interruptible};
use crate::table::{Column, OutputStyle, table, text};

/// Search the history of tasks, newest first; show, cancel or retry tasks
///
/// The history contains every task of every session, including collected ones, until its session is
/// deleted.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, after_long_help = examples!("  adjutant tasks                                       the newest tasks
  adjutant tasks --state failed --since 2h             recent failures
  adjutant tasks --failure max_turns --agent researcher
  adjutant tasks -q nightly                            by id, label or agent
  adjutant tasks --json --limit 500 | jq '[.tasks[].cost_usd] | add'
  adjutant tasks show 0198c0de-0000-7000-8000-000000000001
  adjutant tasks show t_03 --session nightly --turns   with every turn
  adjutant tasks retry t_03                            the same task again
  adjutant tasks retry --failure model --since 2h      all of these again
  adjutant tasks cancel --state queued --agent scout   all of these
"))]
pub struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,

    #[command(flatten)]
    list: List,
}

#[derive(Debug, Args)]
struct List {
    #[command(flatten)]
    filter: Filter,

    /// The most entries to show
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,

    /// Show the page after this cursor, the next_cursor of the previous page
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,

    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Subcommand)]
enum Action {
    Show(Show),
    Cancel(Cancel),
    Retry(Retry),
}

/// Show everything about a task
#[derive(Debug, Args)]
#[command(after_long_help = examples!("  adjutant tasks show t_03
  adjutant tasks show t_03 --turns
  adjutant tasks show 0198c0de-0000-7000-8000-000000000001 --json | jq .metadata
"))]
struct Show {
    #[command(flatten)]
    task: TaskRef,

    /// Also show the turns, with model answers and tool calls
    #[arg(long)]
    turns: bool,

    #[command(flatten)]
    server: ServerArgs,
}

/// Cancel all unfinished tasks that match a filter, with everything below them
///
/// It works in batches, the newest tasks first. Interrupted or not, the same command goes on where
/// it ended. `adjutant cancel` cancels tasks by their ids.
#[derive(Debug, Args)]
#[command(after_long_help = examples!("  adjutant tasks cancel --state queued --agent researcher --dry-run
  adjutant tasks cancel --state queued --agent researcher
  adjutant tasks cancel --session nightly
  adjutant tasks cancel --all                          every unfinished task
"))]
struct Cancel {
    #[command(flatten)]
    selection: Selection,

    #[command(flatten)]
    server: ServerArgs,
}

/// Run a task that has ended again, as a new task with the same assignment; or all failed and
/// cancelled tasks that match a filter
///
/// With a filter it works in batches, the newest tasks first, and retries a task only if it was not
/// retried before. Interrupted or not, the same command goes on where it ended.
#[derive(Debug, Args)]
#[command(after_long_help = examples!("  adjutant tasks retry t_03
  adjutant tasks retry --state failed --since 1h --dry-run
  adjutant tasks retry --state failed --since 1h
"))]
struct Retry {
    /// The id of the task, or its id within the session (t_03)
    #[arg(value_name = "ID", conflicts_with_all = ["state", "failure", "agent", "model", "since", "until", "q", "all", "dry_run", "cursor"])]
    id: Option<String>,

    #[command(flatten)]
    selection: Selection,

    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Args)]
struct TaskRef {
    /// The id of the task, or its id within the session (t_03)
    #[arg(value_name = "ID")]
    id: String,

    /// The session, for an id within a session
    #[arg(long, short, env = "ADJUTANT_SESSION", value_name = "SESSION", default_value = DEFAULT_SESSION)]
    session: String,
}

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    match arguments.action {
        Some(Action::Show(arguments)) => show_one(arguments).await,
        Some(Action::Cancel(arguments)) => {
            let client = arguments.server.client()?;
            bulk::run(&client, Verb::Cancel, &arguments.selection).await
        }
        Some(Action::Retry(arguments)) => retry(arguments).await,
        None => list(arguments.list).await,
    }
}

async fn list(arguments: List) -> anyhow::Result<ExitCode> {
    let client = arguments.server.client()?;
    let mut query = arguments.filter.query();
    query.extend(arguments.cursor.map(|cursor| ("cursor", cursor)));
    let TaskPage { tasks, next_cursor, searched_until, stopped_by } =
        find(&client, query, usize::from(arguments.limit)).await?;
    if client.format() == OutputFormat::Json {
        let until = Some(searched_until).filter(|until| !until.is_empty());
        let page = json!({"tasks": tasks, "next_cursor": next_cursor, "searched_until": until});
        print_json(&page.to_string())?;
    } else if !tasks.is_empty() {
        print_line(as_table(&tasks, Utc::now(), OutputStyle::for_stdout()))?;
    } else if stopped_by.is_none() {
        note!("adjutant: no tasks found");
    } else if !searched_until.is_empty() {
        note!("adjutant: no tasks found back to {searched_until}");
    }
    if let Some(next) = next_cursor.filter(|_| client.format() == OutputFormat::Text) {
        note!("adjutant: more with --cursor {next}");
    }
    match stopped_by {
        Some(name) => Err(Interrupted(name).into()),
        None => Ok(Exit::Done.into()),
    }
}

fn as_table(tasks: &[Value], now: DateTime<Utc>, style: OutputStyle) -> Shown {
    let columns = [
        Column::Name("SESSION"),
        Column::Word("TASK"),
        Column::Name("AGENT"),
        Column::State("STATE"),
        Column::Number("TURNS"),
        Column::Number("USD"),
        Column::Number("AGE"),
        Column::Line("ABOUT"),
    ];
    let row = |task: &Value| {
        vec![
            text(task, "session_id"),
            task_with_parent(task, tasks),
            text(task, "agent"),
            task_text::state_with_reason(task),
            task_text::turns(task).to_string(),
            task.get("cost_usd")
                .and_then(Value::as_f64)
                .map(|usd| format!("{usd:.4}"))
                .unwrap_or_default(),
            age(&text(task, "created_at"), now),
            task_text::about(task),
        ]
    };
    table(&columns, &tasks.iter().map(row).collect::<Vec<_>>(), style)
}

/// The task's id, followed by `<` and the id of its parent.
fn task_with_parent(task: &Value, tasks: &[Value]) -> String {
    let name = text(task, "task_id");
    let Some(parent) = task.get("parent").and_then(Value::as_str) else { return name };
    let parent = tasks.iter().find(|other| text(other, "id") == parent);
    format!(
        "{name} < {}",
        parent.map_or_else(|| "...".to_owned(), |parent| text(parent, "task_id"))
    )
}

async fn show_one(arguments: Show) -> anyhow::Result<ExitCode> {
    let client = arguments.server.client()?;
    let id = arguments.task.find(&client).await?;
    // The search for its id has caught the signals for good.
    let get = async |path: &[&str]| {
        interruptible(async { Ok(client.get(path, Vec::new()).await?) }).await
    };
    let answer = get(&["v1", "tasks", &id]).await?;
    print_answer(&client, &answer, || detail::task(&answer.value))?;
    if arguments.turns {
        let turns = get(&["v1", "tasks", &id, "turns"]).await?;
        print_answer(&client, &turns, || detail::turns(&turns.value))?;
    }
    Ok(Exit::Done.into())
}

async fn retry(arguments: Retry) -> anyhow::Result<ExitCode> {
    let client = arguments.server.client()?;
    let Some(id) = arguments.id else {
        return bulk::run(&client, Verb::Retry, &arguments.selection).await;
    };
    let session =
        arguments.selection.filter.session.or_else(|| std::env::var("ADJUTANT_SESSION").ok());
    let session =
        session.filter(|name| !name.is_empty()).unwrap_or_else(|| DEFAULT_SESSION.to_owned());
    let id = TaskRef { id, session }.find(&client).await?;
    let path = ["v1", "tasks", &id, "retry"];
    let answer = interruptible(async { Ok(client.post(&path, json!({})).await?) }).await?;
    print_answer(&client, &answer, || text(&answer.value, "task_id"))?;
    Ok(Exit::Done.into())
}

impl TaskRef {
    /// The global id. An id within a session is looked up in the history.
    async fn find(&self, client: &Client) -> anyhow::Result<String> {
        if !self.id.starts_with("t_") {
            return Ok(self.id.clone());
        }
        let query = vec![("session", self.session.clone()), ("q", self.id.clone())];
        let found = find(client, query, 1).await?;
        if let Some(name) = found.stopped_by {
            return Err(Interrupted(name).into());
        }
        let named = found.tasks.iter().find(|task| text(task, "task_id") == self.id);
        named.map(|task| text(task, "id")).ok_or_else(|| {
            let message = format!(
                "no task {} in the session {:?}; `adjutant tasks -q {}` searches all sessions",
                self.id, self.session, self.id
            );
            CommandError { exit: Exit::NotFound, message }.into()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moment::parse_time;
    use crate::table::Colors;

    #[test]
    fn a_child_is_shown_with_its_parent() {
        let tasks = json!([{"id": "b", "task_id": "t_02", "parent": "a"}, {"id": "a", "task_id": "t_01", "parent": null},
            {"id": "c", "task_id": "t_03", "parent": "elsewhere"}]);
        let tasks = tasks.as_array().unwrap();
        let shown: Vec<String> = tasks.iter().map(|task| task_with_parent(task, tasks)).collect();
        assert_eq!(shown, ["t_02 < t_01", "t_01", "t_03 < ..."]);
    }

    #[test]
    fn a_table_of_the_history_fits_a_narrow_terminal() {
        let tasks = json!([{"session_id": "nightly", "task_id": "t_01", "agent": "clerk", "state": "failed", "failure": "model",
            "turns_used": 3, "cost_usd": 0.01234, "created_at": "2026-07-01T00:00:00Z", "error": "Model API error: 401"}]);
        let now = parse_time("2026-07-04T00:00:00Z").unwrap();
        let wide = as_table(
            tasks.as_array().unwrap(),
            now,
            OutputStyle { width: 100, colors: Colors::Off },
        );
        assert_eq!(
            wide.lines().collect::<Vec<_>>(),
            [
                "SESSION  TASK  AGENT  STATE           TURNS     USD  AGE  ABOUT",
                "nightly  t_01  clerk  failed (model)      3  0.0123   3d  Model API error: 401",
            ]
        );
        let narrow = as_table(
            tasks.as_array().unwrap(),
            now,
            OutputStyle { width: 72, colors: Colors::Off },
        );
        assert!(narrow.lines().all(|line| line.chars().count() <= 72), "{narrow}");
    }
}
