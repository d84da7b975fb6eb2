//! `adjutant migrate`: brings a database up to this program.

use std::process::ExitCode;

use adjutant_store::Store;
use anyhow::Context;
use clap::Args;

use crate::output::print_line;

/// Bring a database's schema up to this program
///
/// Running it twice, or from several machines at once, is harmless. Every other command refuses a schema that it does not
/// fit. Migrations are additive: workers of the release before go on running while this one is rolled out.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  adjutant migrate --database-url postgres://adjutant@db.example/adjutant
  DATABASE_URL=postgres://... adjutant migrate --json
")]
pub struct Arguments {
    /// The database: one of its own for Adjutant, PostgreSQL 15 or newer
    #[arg(long, env = "DATABASE_URL", value_name = "URL", hide_env_values = true)]
    database_url: String,

    /// Print one JSON object: from, to
    #[arg(long)]
    json: bool,
}

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let migrated = Store::migrate(&arguments.database_url).await.context("cannot migrate")?;
    let line = if arguments.json {
        serde_json::json!({"from": migrated.from, "to": migrated.to}).to_string()
    } else if migrated.from == migrated.to {
        format!("The schema is at {}: nothing to do.", migrated.to)
    } else {
        format!("The schema went from {} to {}.", migrated.from, migrated.to)
    };
    print_line(&line)?;
    Ok(ExitCode::SUCCESS)
}
