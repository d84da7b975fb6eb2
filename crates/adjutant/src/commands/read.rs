//! `adjutant read`: a long result, whole or in pages.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use crate::client::{CallError, Client, Form};
use crate::commands::reach::{InSession, Reach};
use crate::exit::{Exit, examples};
use crate::output::print_line;
use crate::table::text;

/// The longest page that the server gives.
const PAGE: u64 = 20_000;

/// Print the result of a task, also after it was collected
///
/// Nothing changes by reading. Without --limit it prints everything from --offset on; with it, or with --json, one page.
#[derive(Debug, Args)]
#[command(after_long_help = examples!("  adjutant read t_03
  adjutant read t_03 --offset 4000 --limit 2000
  adjutant read t_03 --json | jq .next_offset
"))]
pub struct Arguments {
    /// The task, as `spawn` named it
    #[arg(value_name = "TASK_ID")]
    task: String,

    /// How many characters to skip
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: u64,

    /// The most characters to print, up to 20000 [default: all]
    #[arg(long, value_name = "N")]
    limit: Option<u64>,

    #[command(flatten)]
    session: InSession,

    #[command(flatten)]
    reach: Reach,
}

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let client = arguments.reach.client()?;
    let (session, task) = (arguments.session.name(), &arguments.task);
    match (client.form(), arguments.limit) {
        (Form::Plain, None) => print_line(&whole(&client, session, task, arguments.offset).await?)?,
        (form, limit) => {
            let mut call = json!({"action": "read", "task_id": task, "offset": arguments.offset});
            if let Some(limit) = limit {
                call["limit"] = json!(limit);
            }
            let page = client.subagent(session, &call).await?;
            match form {
                Form::Json => print_line(&page.text)?,
                Form::Plain => print_page(&page.value)?,
            }
        }
    }
    Ok(Exit::Done.into())
}

fn print_page(page: &Value) -> anyhow::Result<()> {
    print_line(&text(page, "text"))?;
    if let Some(next) = page.get("next_offset").and_then(Value::as_u64) {
        eprintln!(
            "adjutant: of {} characters; the next page is at --offset {next}",
            text(page, "result_chars")
        );
    }
    Ok(())
}

/// The whole text from an offset on, page by page.
pub async fn whole(client: &Client, session: &str, task: &str, offset: u64) -> Result<String, CallError> {
    let (mut read, mut offset) = (String::new(), offset);
    loop {
        let call = json!({"action": "read", "task_id": task, "offset": offset, "limit": PAGE});
        let page = client.patiently(async || client.subagent(session, &call).await).await?.value;
        read.push_str(&text(&page, "text"));
        match page.get("next_offset").and_then(Value::as_u64) {
            // A server that does not get on would keep us for ever.
            Some(next) if next > offset => offset = next,
            Some(_) | None => return Ok(read),
        }
    }
}
