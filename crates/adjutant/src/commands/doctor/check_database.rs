use std::time::Duration;

use adjutant_store::{DeletionsLeft, Error, SchemaMismatch, Store};
use chrono::Utc;

use super::finding::Finding;
use super::{check_fleet, check_published};
use crate::commands::database_args::DatabaseArgs;
use crate::config::Config;
use crate::exit::CommandError;

/// How long to wait for a notification, which normally takes milliseconds.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(3);

/// A larger difference between the clocks makes timestamps misleading.
const MAX_CLOCK_SKEW_S: f64 = 5.0;

pub async fn check(
    database: &DatabaseArgs,
    listen_url: Option<&str>,
    config: &Config,
) -> Vec<Finding> {
    let url = match database.url() {
        Ok(url) => url,
        Err(error) if database.is_given() => {
            return vec![Finding::wrong(
                "database",
                format!("{error:#}"),
                "check the URL or the data directory",
            )];
        }
        Err(error) if error.downcast_ref::<CommandError>().is_some() => {
            return vec![Finding::skipped("database", error.to_string())];
        }
        Err(_) => {
            let why =
                "no `adjutant up` runs here, and neither --database-url nor DATABASE_URL is set";
            return vec![Finding::skipped("database", why)];
        }
    };
    let store = match Store::open(&url, 2).await {
        Ok(store) => store,
        Err(error) => return error_findings(&error),
    };
    let mut findings = vec![
        Finding::ok("database", "reachable"),
        Finding::ok("schema", "matches this program"),
        Finding::ok("isolation", "read committed"),
        notices(&store, listen_url.unwrap_or(&url)).await,
    ];
    findings.extend(fleet(&store).await.unwrap_or_else(|error| error_findings(&error)));
    let published = check_published::check(&store, config).await;
    findings.extend(published.unwrap_or_else(|error| error_findings(&error)));
    store.close().await;
    findings
}

fn error_findings(error: &Error) -> Vec<Finding> {
    let answers = || Finding::ok("database", "reachable");
    match error {
        Error::Schema(misfit @ SchemaMismatch::Isolation(_)) => {
            vec![
                answers(),
                Finding::wrong(
                    "isolation",
                    misfit.to_string(),
                    "change the setting and restart all processes",
                ),
            ]
        }
        Error::Schema(misfit) => {
            let advice = "run the command that the message names";
            vec![answers(), Finding::wrong("schema", misfit.to_string(), advice)]
        }
        Error::Unavailable(_) => {
            let advice = "check that PostgreSQL runs and that the URL is right";
            vec![Finding::wrong("database", error.to_string(), advice)]
        }
        Error::Refused(_) | Error::LeaseLost(_) | Error::Unexpected(_) => {
            vec![Finding::wrong(
                "database",
                error.to_string(),
                "check the URL, and that its user owns the database",
            )]
        }
    }
}

async fn notices(store: &Store, url: &str) -> Finding {
    let advice = "workers poll instead, and tasks start later; behind a pooler, set --listen-url";
    match store.can_notify(url, NOTIFY_TIMEOUT).await {
        Ok(true) => Finding::ok("notices", "LISTEN and NOTIFY work"),
        Ok(false) => Finding::warning("notices", "notifications do not arrive", advice),
        Err(error) => Finding::warning("notices", error.to_string(), advice),
    }
}

async fn fleet(store: &Store) -> adjutant_store::Result<Vec<Finding>> {
    let asked_at = Utc::now();
    let checkup = store.health().await?;
    let halfway = asked_at + (Utc::now() - asked_at) / 2;
    let skew = checkup.clock.signed_duration_since(halfway).as_seconds_f64();
    let clock = if skew.abs() > MAX_CLOCK_SKEW_S {
        let found = format!("differs from this machine's by {skew:+.1} s");
        Finding::warning(
            "clock",
            found,
            "synchronise both with NTP; leases use only the database's clock",
        )
    } else {
        Finding::ok("clock", format!("differs from this machine's by {skew:+.3} s"))
    };
    let mut findings = check_fleet::read(store).await?;
    findings.extend([disk(store).await, clock, deletions(store.deletions_left().await?)]);
    Ok(findings)
}

async fn disk(store: &Store) -> Finding {
    match store.can_write().await {
        Ok(()) => Finding::ok("disk", "the database can write 16 MB"),
        Err(error) => Finding::wrong(
            "disk",
            format!("the database cannot write 16 MB: {error}"),
            "free space where PostgreSQL has its data; nothing stored is lost",
        ),
    }
}

fn deletions(left: DeletionsLeft) -> Finding {
    let DeletionsLeft { sessions, tasks } = left;
    let found = match sessions {
        0 => "no deleted session has rows left".to_owned(),
        1 => format!("1 deleted session has rows left, with {tasks} tasks; workers delete them"),
        _ => format!(
            "{sessions} deleted sessions have rows left, with {tasks} tasks; workers delete them"
        ),
    };
    Finding::ok("deletions", found)
}
