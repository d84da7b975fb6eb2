//! `adjutant migrate`: updates the schema of a database.

use std::process::ExitCode;

use adjutant_store::Store;
use clap::Args;

use crate::output::print_line;

/// Update the schema of a database to this version of the program
///
/// It is safe to run it twice, or from several machines at once. Every other command refuses a
/// schema that does not match. Migrations are additive: workers of the previous release keep
/// running during a rolling update.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  adjutant migrate --database-url postgres://adjutant@db.example/adjutant
  DATABASE_URL=postgres://... adjutant migrate --json
")]
pub struct Arguments {
    /// A database that only Adjutant uses, on PostgreSQL 15 or newer
    #[arg(long, env = "DATABASE_URL", value_name = "URL", hide_env_values = true)]
    database_url: String,

    /// Print one JSON object: from, to
    #[arg(long)]
    json: bool,
}

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let migrated = Store::migrate(&arguments.database_url).await?;
    let line = if arguments.json {
        serde_json::json!({"from": migrated.from, "to": migrated.to}).to_string()
    } else if migrated.from == migrated.to {
        format!("The schema is at version {}, nothing to do.", migrated.to)
    } else {
        format!("The schema was updated from version {} to {}.", migrated.from, migrated.to)
    };
    print_line(&line)?;
    Ok(ExitCode::SUCCESS)
}
