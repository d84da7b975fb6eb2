//! `adjutant migrate`: updates the schema of a database.

use std::path::PathBuf;
use std::process::ExitCode;

use adjutant_store::Store;
use clap::Args;

use crate::adopt_cap;
use crate::config::{Loaded, Role};
use crate::output::{note, print_json, print_line};

/// Update the schema of a database to this version of the program
///
/// It is safe to run it twice, or from several machines at once. Every other command refuses a
/// schema that does not match. Migrations are additive: workers of the previous release keep
/// running during a rolling update.
///
/// If the config has limits.cap and nobody has chosen a cap for the database, it is set.
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

    /// The config file, for limits.cap [default: $ADJUTANT_CONFIG, else ./adjutant.toml if it
    /// exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

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
    if arguments.json {
        print_json(&line)?
    } else {
        print_line(line)?
    }
    set_cap(&arguments).await?;
    Ok(ExitCode::SUCCESS)
}

/// The schema does not depend on the config, so an invalid one is no reason to fail.
async fn set_cap(arguments: &Arguments) -> anyhow::Result<()> {
    let Loaded { config, errors } = Loaded::from_process(arguments.config.as_deref(), Role::Server);
    if !errors.is_empty() {
        note!(
            "adjutant: limits.cap is not applied, because the config is invalid; see `adjutant config check`"
        );
        return Ok(());
    }
    if config.limits.given_cap().is_none() {
        return Ok(());
    }
    let store = Store::open(&arguments.database_url, 1).await?;
    let adopted = adopt_cap::adopt(&store, &config).await?;
    store.close().await;
    match adopted {
        Some(adopted) if adopted.adopted => {
            note!("adjutant: the cap is {} now, from limits.cap", adopted.cap);
        }
        Some(adopted) => {
            let difference = adopt_cap::difference(&config, adopted.cap);
            difference.iter().for_each(|text| note!("adjutant: warning: {text}"));
        }
        None => {}
    }
    Ok(())
}
