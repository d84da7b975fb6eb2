//! `adjutant doctor`: finds problems of an installation.

mod check_config;
mod check_database;
mod check_fleet;
mod check_published;
mod check_server;
mod finding;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use crate::client::OutputFormat;
use crate::commands::database_args::DatabaseArgs;
use crate::commands::server_args::ServerArgs;
use crate::exit::Exit;
use crate::output::{print_json, print_line};
use crate::table::OutputStyle;
pub use check_fleet::read as fleet_findings;
pub use finding::{Finding, Verdict};

/// Check the installation and suggest fixes
///
/// Checks the config, the API keys of its models, the database with its schema, clock, disk and
/// notifications, the server and your key; and the fleet: its workers, the cap, models that are
/// held back, failing tools and tasks, tenants that flood the queue. It leaves nothing changed. The
/// exit code is 1 if a check fails; warnings do not count.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  adjutant doctor                                        check the `adjutant up` that runs here
  adjutant doctor --database-url postgres://... --url https://adjutant.example
  adjutant doctor --json | jq '.checks[] | select(.verdict == \"wrong\")'

Exit codes:
  0  every check passed
  1  a check failed
  2  usage error
")]
pub struct Arguments {
    /// The config file [default: $ADJUTANT_CONFIG, else ./adjutant.toml if it exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// The database [default: the one of the `adjutant up` that runs here]
    #[arg(long, env = "DATABASE_URL", value_name = "URL", hide_env_values = true)]
    database_url: Option<String>,

    /// The URL on which workers LISTEN, if the database URL leads through a pooler in transaction
    /// mode
    #[arg(long, env = "ADJUTANT_LISTEN_URL", value_name = "URL", hide_env_values = true)]
    listen_url: Option<String>,

    #[command(flatten)]
    server: ServerArgs,
}

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let client = arguments.server.client()?;
    let (config, mut findings) = check_config::check(arguments.config.as_deref());
    let database = DatabaseArgs::new(arguments.database_url, arguments.server.data_dir.clone());
    let listen_url = arguments.listen_url.as_deref().filter(|url| !url.is_empty());
    findings.extend(check_database::check(&database, listen_url, &config).await);
    findings.extend(check_server::check(&client).await);
    let wrong = findings.iter().any(|finding| finding.verdict == Verdict::Wrong);
    match client.format() {
        OutputFormat::Json => {
            let checks: Vec<_> = findings.iter().map(Finding::as_json).collect();
            print_json(&json!({"ok": !wrong, "checks": checks}).to_string())?;
        }
        OutputFormat::Text => print_line(finding::as_text(&findings, OutputStyle::for_stdout()))?,
    }
    Ok(if wrong { Exit::Error } else { Exit::Done }.into())
}
