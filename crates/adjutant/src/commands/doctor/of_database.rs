use std::time::Duration;

use adjutant_store::{Error, SchemaMisfit, Store};
use chrono::Utc;

use super::finding::Finding;
use crate::commands::database::Database;

/// A notice takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(3);

/// Clocks that are apart by more make times that people compare misleading.
const APART_S: f64 = 5.0;

pub async fn look(database: &Database, listen_url: Option<&str>) -> Vec<Finding> {
    let url = match database.url() {
        Ok(url) => url,
        Err(error) if database.is_named() => {
            return vec![Finding::wrong("database", format!("{error:#}"), "check the URL or the folder")];
        }
        Err(_) => {
            let why = "no `adjutant up` runs here, and neither --database-url nor DATABASE_URL is given";
            return vec![Finding::skipped("database", why)];
        }
    };
    let store = match Store::open(&url, 2).await {
        Ok(store) => store,
        Err(error) => return of_error(&error),
    };
    let mut findings = vec![
        Finding::ok("database", "it answers"),
        Finding::ok("schema", "it fits this program"),
        Finding::ok("isolation", "read committed"),
        notices(&store, listen_url.unwrap_or(&url)).await,
    ];
    findings.extend(fleet(&store).await.unwrap_or_else(|error| of_error(&error)));
    store.close().await;
    findings
}

fn of_error(error: &Error) -> Vec<Finding> {
    let answers = || Finding::ok("database", "it answers");
    match error {
        Error::Schema(misfit @ SchemaMisfit::Isolation(_)) => {
            vec![
                answers(),
                Finding::wrong("isolation", misfit.to_string(), "set it, and start everything again"),
            ]
        }
        Error::Schema(misfit) => {
            let advice = "the sentence above says which command mends it";
            vec![answers(), Finding::wrong("schema", misfit.to_string(), advice)]
        }
        Error::Unavailable(_) => {
            let advice = "is it started, and does the URL lead to it?";
            vec![Finding::wrong("database", error.to_string(), advice)]
        }
        Error::Refused(_) | Error::LeaseLost(_) | Error::Unexpected(_) => {
            vec![Finding::wrong(
                "database",
                error.to_string(),
                "check the URL, and whether its user owns the database",
            )]
        }
    }
}

async fn notices(store: &Store, url: &str) -> Finding {
    let advice = "workers poll instead and begin later; past a pooler, give them --listen-url";
    match store.is_heard_at(url, PATIENCE).await {
        Ok(true) => Finding::ok("notices", "LISTEN and NOTIFY come through"),
        Ok(false) => Finding::warning("notices", "what is notified is not heard", advice),
        Err(error) => Finding::warning("notices", error.to_string(), advice),
    }
}

async fn fleet(store: &Store) -> adjutant_store::Result<Vec<Finding>> {
    let asked_at = Utc::now();
    let checkup = store.checkup().await?;
    let halfway = asked_at + (Utc::now() - asked_at) / 2;
    let slots = store.slots().await?;
    let workers = match checkup.workers_alive {
        0 => Finding::wrong(
            "workers",
            "none is alive: tasks wait",
            "start one: `adjutant work`, or `adjutant up`",
        ),
        1 => Finding::ok("workers", "1 is alive"),
        alive => Finding::ok("workers", format!("{alive} are alive")),
    };
    let cap = match (slots.cap, slots.used) {
        (0, _) => Finding::wrong("cap", "0: nothing new starts", "`adjutant limits --cap 5`"),
        (cap, used) if used >= cap => Finding::warning(
            "cap",
            format!("all {cap} slots are in use"),
            "`adjutant limits --cap N` lets more run at once, if the workers have room",
        ),
        (cap, used) => Finding::ok("cap", format!("{used} of {cap} slots are in use")),
    };
    let apart = checkup.clock.signed_duration_since(halfway).as_seconds_f64();
    let clock = if apart.abs() > APART_S {
        let found = format!("the database's is {apart:+.1} s away from this machine's");
        Finding::warning("clock", found, "set both by NTP; leases go by the database's and are safe")
    } else {
        Finding::ok("clock", format!("the database's is {apart:+.3} s away from this machine's"))
    };
    Ok(vec![workers, cap, clock])
}
