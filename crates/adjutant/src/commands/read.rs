//! `adjutant read`: prints a result, whole or in pages.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use crate::client::{CallError, Client, OutputFormat};
use crate::commands::server_args::{ServerArgs, SessionArgs};
use crate::exit::{Exit, examples};
use crate::output::{note, print_content, print_json};
use crate::table::text;

/// The longest page that the server returns.
const PAGE: u64 = 20_000;

/// Print the result of a task, even after it was collected
///
/// Reading changes nothing. Without --limit it prints everything from --offset on; with --limit or
/// --json it prints one page.
#[derive(Debug, Args)]
#[command(after_long_help = examples!("  adjutant read t_03
  adjutant read t_03 --offset 4000 --limit 2000
  adjutant read t_03 --json | jq .next_offset
"))]
pub struct Arguments {
    /// The id of the task, as printed by `spawn`
    #[arg(value_name = "TASK_ID")]
    task: String,

    /// How many characters to skip
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: u64,

    /// The most characters to print, at most 20000 [default: all]
    #[arg(long, value_name = "N")]
    limit: Option<u64>,

    #[command(flatten)]
    session: SessionArgs,

    #[command(flatten)]
    server: ServerArgs,
}

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let client = arguments.server.client()?;
    let (session, task) = (arguments.session.name(), &arguments.task);
    match (client.format(), arguments.limit) {
        (OutputFormat::Text, None) => {
            print_content(&whole(&client, session, task, arguments.offset).await?)?
        }
        (format, limit) => {
            let mut call = json!({"action": "read", "task_id": task, "offset": arguments.offset});
            if let Some(limit) = limit {
                call["limit"] = json!(limit);
            }
            let page = client.subagent(session, &call).await?;
            match format {
                OutputFormat::Json => print_json(&page.text)?,
                OutputFormat::Text => print_page(&page.value)?,
            }
        }
    }
    Ok(Exit::Done.into())
}

fn print_page(page: &Value) -> anyhow::Result<()> {
    print_content(&text(page, "text"))?;
    if let Some(next) = page.get("next_offset").and_then(Value::as_u64) {
        note!(
            "adjutant: of {} characters; the next page is at --offset {next}",
            text(page, "result_chars")
        );
    }
    Ok(())
}

/// The text from an offset to the end, page by page.
pub async fn whole(
    client: &Client,
    session: &str,
    task: &str,
    offset: u64,
) -> Result<String, CallError> {
    let (mut read, mut offset) = (String::new(), offset);
    loop {
        let call = json!({"action": "read", "task_id": task, "offset": offset, "limit": PAGE});
        let page = client.with_retries(async || client.subagent(session, &call).await).await?.value;
        read.push_str(&text(&page, "text"));
        match page.get("next_offset").and_then(Value::as_u64) {
            // Guards against a server that does not advance the offset.
            Some(next) if next > offset => offset = next,
            Some(_) | None => return Ok(read),
        }
    }
}
