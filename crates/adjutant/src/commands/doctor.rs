//! `adjutant doctor`: what is wrong, and what to do about it.

mod finding;
mod of_config;
mod of_database;
mod of_server;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use crate::client::Form;
use crate::commands::database::Database;
use crate::commands::reach::Reach;
use crate::exit::Exit;
use crate::output::print_line;
use crate::table::Look;
use finding::{Finding, Verdict};

/// Check everything that has to be right, and say what to do
///
/// Looks at the config, the keys of its models, the database, its schema and its clock, whether notices come through, the workers,
/// the cap, the server and your key. It changes nothing. It exits with 1 if something is wrong; warnings do not count.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  adjutant doctor                                        of the `adjutant up` that runs here
  adjutant doctor --database-url postgres://... --url https://adjutant.example
  adjutant doctor --json | jq '.checks[] | select(.verdict == \"wrong\")'

Exit codes:
  0  nothing is wrong
  1  something is
  2  usage
")]
pub struct Arguments {
    /// The config file [default: $ADJUTANT_CONFIG, else ./adjutant.toml if it is there]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(flatten)]
    database: Database,

    /// Where workers hear notices, if the database URL leads through a pooler in transaction mode
    #[arg(long, env = "ADJUTANT_LISTEN_URL", value_name = "URL", hide_env_values = true)]
    listen_url: Option<String>,

    #[command(flatten)]
    reach: Reach,
}

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let client = arguments.reach.client()?;
    let mut findings = of_config::look(arguments.config.as_deref());
    let listen_url = arguments.listen_url.as_deref().filter(|url| !url.is_empty());
    findings.extend(of_database::look(&arguments.database, listen_url).await);
    findings.extend(of_server::look(&client).await);
    let wrong = findings.iter().any(|finding| finding.verdict == Verdict::Wrong);
    print_line(&match client.form() {
        Form::Json => {
            let checks: Vec<_> = findings.iter().map(Finding::as_json).collect();
            json!({"ok": !wrong, "checks": checks}).to_string()
        }
        Form::Plain => finding::as_text(&findings, Look::of_stdout()),
    })?;
    Ok(if wrong { Exit::Error } else { Exit::Done }.into())
}
