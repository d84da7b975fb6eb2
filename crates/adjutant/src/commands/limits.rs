//! `adjutant limits`: shows and sets the fleet-wide cap.

use std::process::ExitCode;

use clap::Args;

use crate::commands::database_args::DatabaseArgs;
use crate::output::{print_json, print_line};

/// Show or set how many tasks the whole fleet runs at once
///
/// A new cap takes effect at once on every worker. A lower cap stops no running task: new tasks
/// start when enough have ended.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  adjutant limits                 show the cap of the `adjutant up` that runs here
  adjutant limits --cap 20        run at most 20 tasks at once
  adjutant limits --cap 0         start no new tasks
  adjutant limits --database-url postgres://... --json
")]
pub struct Arguments {
    /// The new cap
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    cap: Option<i32>,

    #[command(flatten)]
    database: DatabaseArgs,

    /// Print one JSON object: cap, running, and with --cap also cap_before
    #[arg(long)]
    json: bool,
}

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let store = arguments.database.open_as_user().await?;
    let before = store.slots().await?;
    if let Some(cap) = arguments.cap {
        store.set_cap(cap).await?;
    }
    let now = store.slots().await?;
    store.close().await;
    let line = match (arguments.json, arguments.cap) {
        (true, None) => serde_json::json!({"cap": now.cap, "running": now.used}).to_string(),
        (true, Some(_)) => {
            serde_json::json!({"cap": now.cap, "running": now.used, "cap_before": before.cap})
                .to_string()
        }
        (false, None) => format!("cap {}, {} running", now.cap, now.used),
        (false, Some(_)) => format!("cap {} (was {}), {} running", now.cap, before.cap, now.used),
    };
    if arguments.json {
        print_json(&line)?
    } else {
        print_line(line)?
    }
    Ok(ExitCode::SUCCESS)
}
