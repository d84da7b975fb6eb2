use std::time::Duration;

use adjutant_agent::WorkerId;
use chrono::{DateTime, Utc};
use sqlx::Connection;

use crate::{Listener, Notice, Result, Store, Worker};

/// Facts about a reachable database, for an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseHealth {
    /// Live workers of all pools.
    pub workers_alive: i64,
    /// The database's clock, which all stored times come from.
    pub clock: DateTime<Utc>,
}

impl Store {
    /// Reads the number of live workers and the clock.
    pub async fn health(&self) -> Result<DatabaseHealth> {
        self.call(async |connection| {
            sqlx::query_as!(
                DatabaseHealth,
                r#"select
                    (select count(*) from living_worker) as "workers_alive!",
                    clock_timestamp() as "clock!""#
            )
            .fetch_one(connection)
            .await
        })
        .await
    }

    /// Whether the database answers at all.
    pub async fn is_available(&self) -> bool {
        let answer = self.call(async |connection| connection.ping().await).await;
        !answer.is_err_and(|error| error.is_outage())
    }

    /// Whether a notice that this store sends arrives at a listener at `url` within `limit`. A
    /// connection pooler in transaction mode drops notices.
    pub async fn can_notify(&self, url: &str, limit: Duration) -> Result<bool> {
        // A worker that is not registered: only its own channel is used.
        let probe = Worker { store: self.clone(), calls: self.clone(), id: WorkerId::new() };
        let mut listener = Listener::connect(url, probe.id).await?;
        probe.echo().await?;
        let echo = async {
            while listener.next().await? != Notice::Echo {}
            Ok(true)
        };
        tokio::time::timeout(limit, echo).await.unwrap_or(Ok(false))
    }
}
