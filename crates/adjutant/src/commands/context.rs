//! `adjutant context`: the shared context of a session.

mod parts;

use std::path::PathBuf;
use std::process::ExitCode;

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::client::{Answer, CallError, Client, OutputFormat};
use crate::commands::server_args::{ServerArgs, SessionArgs, print_answer};
use crate::commands::spawn::text_or_stdin;
use crate::exit::{CommandError, Exit, examples};
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
#[command(after_long_help = examples!("  adjutant context read error_logs | less
  adjutant context read manual --whole > manual.txt        what `write --file` has divided
"))]
struct Key {
    /// 1 to 64 characters of a-z, 0-9 and _
    #[arg(value_name = "KEY")]
    key: String,

    /// Print the whole text, if `write --file` has divided it among several keys
    #[arg(long)]
    whole: bool,

    #[command(flatten)]
    session: SessionArgs,

    #[command(flatten)]
    server: ServerArgs,
}

/// Write a value: it replaces the old one, and the version increases
#[derive(Debug, Args)]
#[command(after_long_help = examples!("  adjutant context write goal 'Find out why the checkout is slow'
  tail -20 error.log | adjutant context write error_logs
  adjutant context write manual --file manual.txt         a long file in parts: manual_1, manual_2, ...
  git diff | adjutant context write diff --file -
"))]
struct Write {
    /// 1 to 64 characters of a-z, 0-9 and _
    #[arg(value_name = "KEY")]
    key: String,

    /// The value; `-` or no value reads standard input. It has at most 4003 characters (1000
    /// tokens), unless the server has another `limits.max_value_tokens`
    #[arg(value_name = "VALUE")]
    value: Option<String>,

    /// Write this file. What is too long for one value is divided among KEY_1, KEY_2 and so on, and
    /// KEY says so; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "value")]
    file: Option<PathBuf>,

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
    let (session, key) = (arguments.session.name(), &arguments.key);
    let call = json!({"action": "read", "key": key});
    let answer = client.tool(session, TOOL, &call).await?;
    let value = text(&answer.value, "value");
    let Some(count) = parts::count(key, &value) else {
        return print_value(&client, &answer, &value);
    };
    if arguments.whole {
        return parts::print(&client, session, key, count).await;
    }
    print_value(&client, &answer, &value)?;
    let flags =
        format!("{}{}", arguments.session.repeat_flags(), arguments.server.repeat_flags(&client));
    note!("adjutant: print the text with: adjutant context read {key} --whole{flags}");
    Ok(())
}

fn print_value(client: &Client, answer: &Answer, value: &str) -> anyhow::Result<()> {
    match client.format() {
        OutputFormat::Json => print_json(&answer.text),
        OutputFormat::Text => print_content(value),
    }
}

async fn write(arguments: Write) -> anyhow::Result<()> {
    let client = arguments.server.client()?;
    let (session, key) = (arguments.session.name(), &arguments.key);
    if let Some(file) = &arguments.file {
        let text = parts::text_of(file)?;
        return parts::write(&client, session, key, &text).await;
    }
    let value = text_or_stdin(arguments.value.as_deref(), "VALUE")?;
    match write_value(&client, session, key, &value).await {
        Err(error)
            if error.has_code("VALUE_TOO_LARGE") && client.format() == OutputFormat::Text =>
        {
            let hint = format!(
                "{error}
`adjutant context write {key} --file FILE` divides a long text, and `--file -` that of standard input."
            );
            Err(CommandError::usage(hint).into())
        }
        answer => print_written(&client, key, &answer?),
    }
}

/// Writes one value.
async fn write_value(
    client: &Client,
    session: &str,
    key: &str,
    value: &str,
) -> Result<Answer, CallError> {
    let call = json!({"action": "write", "key": key, "value": value});
    client.tool_creating_session(session, TOOL, &call).await
}

fn print_written(client: &Client, key: &str, answer: &Answer) -> anyhow::Result<()> {
    let warning = text(&answer.value, "warning");
    if !warning.is_empty() {
        note!("adjutant: {warning}");
    }
    print_answer(client, answer, || {
        format!("{key} is now at version {}.", text(&answer.value, "version"))
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
