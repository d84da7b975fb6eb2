//! `adjutant agents`: lists and defines agents.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::commands::server_args::{ServerArgs, SessionArgs, print_answer};
use crate::exit::{CommandError, Exit, examples};
use crate::output::{Shown, note};
use crate::table::{Column, OutputStyle, items, table, text};

/// List the agents of a session, or define one
///
/// Agents of the config are in every session. Agents that are defined here are in one session only.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, after_long_help = examples!("  adjutant agents
  adjutant agents --session nightly --json | jq -r '.agents[].name'
  adjutant agents define critic --description 'Finds weak points' --system-prompt 'You are a critic.'
  adjutant agents define --file critic.json
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
    session: SessionArgs,

    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Subcommand)]
enum Action {
    Define(Define),
}

/// Define an agent for a session
///
/// Defaults: no tools, the session's model, 10 turns. A file given with --file has the same fields
/// as JSON; options override it.
#[derive(Debug, Args)]
#[command(after_long_help = examples!("  adjutant agents define critic --description 'Finds weak points' --system-prompt 'You are a critic.'
  adjutant agents define critic --description 'Finds weak points' --system-prompt-file critic.md --tools shared_context,fetch
  adjutant agents define harsh-critic --extends critic --system-prompt-append 'Spare nobody.'
  adjutant agents define --file critic.json --replace

  with critic.json:
  {\"name\": \"critic\", \"description\": \"Finds weak points\", \"system_prompt\": \"You are a critic.\", \"max_turns\": 5}
"))]
struct Define {
    /// The name of the agent: 1 to 64 characters of a-z, 0-9, _ and -
    #[arg(value_name = "NAME", required_unless_present = "file")]
    name: Option<String>,

    /// What the agent is for, on one line
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,

    /// The system prompt, at most 4000 tokens (16003 characters)
    #[arg(long, value_name = "TEXT")]
    system_prompt: Option<String>,

    /// A file that contains the system prompt
    #[arg(long, value_name = "FILE", conflicts_with = "system_prompt")]
    system_prompt_file: Option<PathBuf>,

    /// The tools of the agent, separated by commas
    #[arg(long, value_name = "TOOL", value_delimiter = ',')]
    tools: Option<Vec<String>>,

    /// The model of the agent [default: the session's]
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,

    /// The most model calls for one task
    #[arg(long, value_name = "N")]
    max_turns: Option<u32>,

    /// The agent to copy every setting from that is not given here
    #[arg(long, value_name = "AGENT")]
    extends: Option<String>,

    /// With --extends: text to append to the system prompt
    #[arg(long, value_name = "TEXT")]
    system_prompt_append: Option<String>,

    /// Replace an agent with the same name
    #[arg(long)]
    replace: bool,

    /// A JSON file with these fields; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    #[command(flatten)]
    session: SessionArgs,

    #[command(flatten)]
    server: ServerArgs,
}

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    match arguments.action {
        Some(Action::Define(arguments)) => define(arguments).await,
        None => list(arguments.list).await,
    }
}

async fn list(arguments: List) -> anyhow::Result<ExitCode> {
    let client = arguments.server.client()?;
    let call = json!({"action": "list_agents"});
    let answer = client.tool_creating_session(arguments.session.name(), "subagent", &call).await?;
    let agents = items(&answer.value, "agents");
    if agents.is_empty() {
        note!(
            "adjutant: no agents yet; add one to the config, or see `adjutant agents define --help`"
        );
    }
    print_answer(&client, &answer, || {
        if agents.is_empty() {
            Shown::default()
        } else {
            as_table(agents, OutputStyle::for_stdout())
        }
    })?;
    Ok(Exit::Done.into())
}

fn as_table(agents: &[Value], style: OutputStyle) -> Shown {
    let columns = [
        Column::Word("AGENT"),
        Column::Word("MODEL"),
        Column::Number("TURNS"),
        Column::Text("TOOLS"),
        Column::Text("DESCRIPTION"),
    ];
    let row = |agent: &Value| {
        let tools: Vec<&str> = items(agent, "tools").iter().filter_map(Value::as_str).collect();
        vec![
            text(agent, "name"),
            text(agent, "model"),
            text(agent, "max_turns"),
            tools.join(", "),
            text(agent, "description"),
        ]
    };
    table(&columns, &agents.iter().map(row).collect::<Vec<_>>(), style)
}

async fn define(arguments: Define) -> anyhow::Result<ExitCode> {
    let client = arguments.server.client()?;
    let call = Value::Object(definition(&arguments)?);
    let answer = client.tool_creating_session(arguments.session.name(), "subagent", &call).await?;
    print_answer(&client, &answer, || {
        format!("Agent {} is defined.", text(&answer.value, "defined"))
    })?;
    Ok(Exit::Done.into())
}

fn definition(arguments: &Define) -> anyhow::Result<Map<String, Value>> {
    let mut call = match &arguments.file {
        Some(path) => read_definition(path)?,
        None => Map::new(),
    };
    let prompt = match &arguments.system_prompt_file {
        Some(path) => Some(read(path)?.trim_end().to_owned()),
        None => arguments.system_prompt.clone(),
    };
    let mut set = |name: &str, value: Option<Value>| {
        call.extend(value.map(|value| (name.to_owned(), value)));
    };
    set("action", Some("define".into()));
    set("name", arguments.name.clone().map(Value::from));
    set("description", arguments.description.clone().map(Value::from));
    set("system_prompt", prompt.map(Value::from));
    set("tools", arguments.tools.clone().map(Value::from));
    set("model", arguments.model.clone().map(Value::from));
    set("max_turns", arguments.max_turns.map(Value::from));
    set("extends", arguments.extends.clone().map(Value::from));
    set("system_prompt_append", arguments.system_prompt_append.clone().map(Value::from));
    set("replace", arguments.replace.then_some(true.into()));
    Ok(call)
}

fn read_definition(path: &Path) -> anyhow::Result<Map<String, Value>> {
    let read: Result<Map<String, Value>, _> = serde_json::from_str(&read(path)?);
    read.map_err(|error| {
        CommandError::usage(format!("{}: must be a JSON object ({error})", path.display())).into()
    })
}

fn read(path: &Path) -> anyhow::Result<String> {
    let read = match path == Path::new("-") {
        true => std::io::read_to_string(std::io::stdin()),
        false => std::fs::read_to_string(path),
    };
    read.with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::table::Colors;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Define,
    }

    #[test]
    fn options_override_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("critic.json");
        std::fs::write(&file, r#"{"name": "critic", "description": "old", "max_turns": 5}"#)
            .unwrap();
        let file = file.to_str().unwrap();
        let line = [
            "define",
            "--file",
            file,
            "--description",
            "new",
            "--tools",
            "fetch,shared_context",
            "--replace",
        ];
        let sent = definition(&Line::try_parse_from(line).unwrap().arguments).unwrap();
        assert_eq!(
            Value::Object(sent),
            json!({"action": "define", "name": "critic", "description": "new", "max_turns": 5, "tools": ["fetch", "shared_context"], "replace": true})
        );
    }

    #[test]
    fn agents_are_a_table() {
        let agents = json!([
            {"name": "clerk", "description": "Does office work", "model": "main", "max_turns": 25, "tools": ["fetch", "lookup"]},
            {"name": "researcher", "description": "Investigates", "model": "main", "max_turns": 10, "tools": []},
        ]);
        let shown =
            as_table(agents.as_array().unwrap(), OutputStyle { width: 100, colors: Colors::Off });
        assert_eq!(
            shown.lines().collect::<Vec<_>>(),
            [
                "AGENT       MODEL  TURNS  TOOLS          DESCRIPTION",
                "clerk       main      25  fetch, lookup  Does office work",
                "researcher  main      10                 Investigates",
            ]
        );
    }
}
