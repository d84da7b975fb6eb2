use std::time::Duration;

use adjutant_store::{DeletionsLeft, Error, SchemaMismatch, Store};
use chrono::Utc;

use super::finding::Finding;
use crate::commands::database_args::DatabaseArgs;

/// How long to wait for a notification, which normally takes milliseconds.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(3);

/// A larger difference between the clocks makes timestamps misleading.
const MAX_CLOCK_SKEW_S: f64 = 5.0;

pub async fn check(database: &DatabaseArgs, listen_url: Option<&str>) -> Vec<Finding> {
    let url = match database.url() {
        Ok(url) => url,
        Err(error) if database.is_given() => {
            return vec![Finding::wrong(
                "database",
                format!("{error:#}"),
                "check the URL or the data directory",
            )];
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
    let slots = store.slots().await?;
    let workers = match checkup.workers_alive {
        0 => Finding::wrong(
            "workers",
            "no worker is alive, so tasks do not start",
            "start `adjutant work` or `adjutant up`",
        ),
        1 => Finding::ok("workers", "1 alive"),
        alive => Finding::ok("workers", format!("{alive} alive")),
    };
    let cap = match (slots.cap, slots.used) {
        (0, _) => Finding::wrong("cap", "0, so no task starts", "`adjutant limits --cap 5`"),
        (cap, used) if used >= cap => Finding::warning(
            "cap",
            format!("all {cap} slots are in use"),
            "raise it with `adjutant limits --cap N`, if the workers have capacity",
        ),
        (cap, used) => Finding::ok("cap", format!("{used} of {cap} slots are in use")),
    };
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
    let fleet = store.fleet().await?;
    let unserved = fleet.pools.iter().filter(|pool| pool.ready > 0 && pool.workers == 0);
    let unserved: Vec<&str> = unserved.map(|pool| pool.name.as_str()).collect();
    let pools = if unserved.is_empty() {
        Finding::ok("pools", "every pool with queued tasks has a worker")
    } else {
        Finding::warning(
            "pools",
            format!("no worker serves {}, where tasks are queued", unserved.join(", ")),
            "start `adjutant work --pool NAME`, or cancel the tasks",
        )
    };
    Ok(vec![workers, cap, pools, clock, deletions(store.deletions_left().await?)])
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
