//! `adjutant context`: the shared context of a session.

use std::process::ExitCode;

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::client::OutputFormat;
use crate::commands::server_args::{ServerArgs, SessionArgs, print_answer};
use crate::commands::spawn::text_or_stdin;
use crate::exit::{Exit, examples};
use crate::moment::age;
use crate::output::{Shown, note, print_content, print_json};
use crate::table::{Column, OutputStyle, items, table, text};

/// Read and write the shared context of a session
#[derive(Debug, Args)]
#[command(after_long_help = examples!("  adjutant context keys
  adjutant context write error_logs < errors.txt
  adjutant context read error_logs
  adjutant context delete error_logs
"))]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Keys(Keys),
    Read(Key),
    Write(Write),
    Delete(Delete),
}

/// List the keys, without their values
#[derive(Debug, Args)]
#[command(after_long_help = examples!("  adjutant context keys --session nightly\n"))]
struct Keys {
    #[command(flatten)]
    session: SessionArgs,

    #[command(flatten)]
    server: ServerArgs,
}

/// Print the value of a key
#[derive(Debug, Args)]
#[command(after_long_help = examples!("  adjutant context read error_logs | less\n"))]
struct Key {
    /// 1 to 64 characters of a-z, 0-9 and _
    #[arg(value_name = "KEY")]
    key: String,

    #[command(flatten)]
    session: SessionArgs,

    #[command(flatten)]
    server: ServerArgs,
}

/// Write a value: it replaces the old one, and the version increases
#[derive(Debug, Args)]
#[command(after_long_help = examples!("  adjutant context write goal 'Find out why the checkout is slow'
  tail -20 error.log | adjutant context write error_logs
  split -C 3000 --filter='adjutant context write $FILE' long.txt long_     in parts: long_aa, long_ab, ...
"))]
struct Write {
    /// 1 to 64 characters of a-z, 0-9 and _
    #[arg(value_name = "KEY")]
    key: String,

    /// The value, at most 4003 characters (1000 tokens); `-` or no value reads standard input
    #[arg(value_name = "VALUE")]
    value: Option<String>,

    #[command(flatten)]
    session: SessionArgs,

    #[command(flatten)]
    server: ServerArgs,
}

/// Delete a key
#[derive(Debug, Args)]
#[command(after_long_help = examples!("  adjutant context delete error_logs\n"))]
struct Delete {
    /// 1 to 64 characters of a-z, 0-9 and _
    #[arg(value_name = "KEY")]
    key: String,

    #[command(flatten)]
    session: SessionArgs,

    #[command(flatten)]
    server: ServerArgs,
}

const TOOL: &str = "shared_context";

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    match arguments.action {
        Action::Keys(arguments) => keys(arguments).await?,
        Action::Read(arguments) => read(arguments).await?,
        Action::Write(arguments) => write(arguments).await?,
        Action::Delete(arguments) => delete(arguments).await?,
    }
    Ok(Exit::Done.into())
}

async fn keys(arguments: Keys) -> anyhow::Result<()> {
    let client = arguments.server.client()?;
    let answer =
        client.tool(arguments.session.name(), TOOL, &json!({"action": "list_keys"})).await?;
    let keys = items(&answer.value, "keys");
    if keys.is_empty() && client.format() == OutputFormat::Text {
        note!("adjutant: the shared context is empty");
    }
    print_answer(&client, &answer, || match keys {
        [] => Shown::default(),
        keys => as_table(keys, Utc::now(), OutputStyle::for_stdout()),
    })
}

fn as_table(keys: &[Value], now: DateTime<Utc>, style: OutputStyle) -> Shown {
    let columns = [
        Column::Word("KEY"),
        Column::Number("VERSION"),
        Column::Number("TOKENS"),
        Column::Number("AGE"),
        Column::Text("WRITTEN BY"),
    ];
    let row = |key: &Value| {
        vec![
            text(key, "key"),
            text(key, "version"),
            text(key, "value_size_tokens"),
            age(&text(key, "written_at"), now),
            text(key, "written_by"),
        ]
    };
    table(&columns, &keys.iter().map(row).collect::<Vec<_>>(), style)
}

async fn read(arguments: Key) -> anyhow::Result<()> {
    let client = arguments.server.client()?;
    let call = json!({"action": "read", "key": arguments.key});
    let answer = client.tool(arguments.session.name(), TOOL, &call).await?;
    match client.format() {
        OutputFormat::Json => print_json(&answer.text),
        OutputFormat::Text => print_content(&text(&answer.value, "value")),
    }
}

async fn write(arguments: Write) -> anyhow::Result<()> {
    let client = arguments.server.client()?;
    let value = text_or_stdin(arguments.value.as_deref(), "VALUE")?;
    let call = json!({"action": "write", "key": arguments.key, "value": value});
    let answer = client.tool_creating_session(arguments.session.name(), TOOL, &call).await?;
    let warning = text(&answer.value, "warning");
    if !warning.is_empty() {
        note!("adjutant: {warning}");
    }
    print_answer(&client, &answer, || {
        format!("{} is now at version {}.", arguments.key, text(&answer.value, "version"))
    })
}

async fn delete(arguments: Delete) -> anyhow::Result<()> {
    let client = arguments.server.client()?;
    let call = json!({"action": "delete", "key": arguments.key});
    let answer = client.tool(arguments.session.name(), TOOL, &call).await?;
    print_answer(&client, &answer, || {
        format!(
            "{} was deleted at version {}.",
            arguments.key,
            text(&answer.value, "previous_version")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moment::parse_time;
    use crate::table::Colors;

    #[test]
    fn keys_are_a_table() {
        let keys = json!([{"key": "error_logs", "version": 3, "value_size_tokens": 800,
            "written_by": "subagent:researcher:t_01", "written_at": "2026-07-01T00:00:00Z"}]);
        let now = parse_time("2026-07-01T00:05:00Z").unwrap();
        let shown =
            as_table(keys.as_array().unwrap(), now, OutputStyle { width: 80, colors: Colors::Off });
        assert_eq!(
            shown.lines().collect::<Vec<_>>(),
            [
                "KEY         VERSION  TOKENS  AGE  WRITTEN BY",
                "error_logs        3     800   5m  subagent:researcher:t_01",
            ]
        );
    }
}
