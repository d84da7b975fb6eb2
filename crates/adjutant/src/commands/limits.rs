//! `adjutant limits`: the fleet-wide cap, shown and changed.

use std::process::ExitCode;

use adjutant_store::Store;
use clap::Args;

use crate::commands::database::Database;
use crate::output::print_line;

/// Show or change how many tasks the whole fleet runs at once
///
/// A new cap holds at once and for everyone, without a restart. When it shrinks, what runs is not stopped: nothing new starts
/// until enough has ended.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  adjutant limits                 of the `adjutant up` that runs here
  adjutant limits --cap 20        at most 20 tasks at once from now on
  adjutant limits --cap 0         nothing new starts
  adjutant limits --database-url postgres://... --json
")]
pub struct Arguments {
    /// The new cap
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    cap: Option<i32>,

    #[command(flatten)]
    database: Database,

    /// Print one JSON object: cap, running, and with --cap the cap before
    #[arg(long)]
    json: bool,
}

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let store = Store::open(&arguments.database.url()?, 2).await?;
    let before = store.slots().await?;
    if let Some(cap) = arguments.cap {
        store.set_cap(cap).await?;
    }
    let now = store.slots().await?;
    store.close().await;
    let line = match (arguments.json, arguments.cap) {
        (true, None) => serde_json::json!({"cap": now.cap, "running": now.used}).to_string(),
        (true, Some(_)) => {
            serde_json::json!({"cap": now.cap, "running": now.used, "cap_before": before.cap}).to_string()
        }
        (false, None) => format!("cap {}, {} running", now.cap, now.used),
        (false, Some(_)) => format!("cap {} (was {}), {} running", now.cap, before.cap, now.used),
    };
    print_line(&line)?;
    Ok(ExitCode::SUCCESS)
}
