use std::time::Duration;

use adjutant_agent::WorkerId;
use chrono::{DateTime, Utc};

use crate::{Listener, News, Result, Store, Worker};

/// What an operator wants to know of a database that can be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkup {
    /// Workers of all pools that were heard of lately.
    pub workers_alive: i64,
    /// Its clock, which all times are of.
    pub clock: DateTime<Utc>,
}

impl Store {
    pub async fn checkup(&self) -> Result<Checkup> {
        self.call(async |connection| {
            sqlx::query_as!(
                Checkup,
                r#"select
                    (select count(*) from living_worker) as "workers_alive!",
                    clock_timestamp() as "clock!""#
            )
            .fetch_one(connection)
            .await
        })
        .await
    }

    /// Whether what is said here is heard at `url`: not so behind a pooler that passes no notices on.
    pub async fn is_heard_at(&self, url: &str, patience: Duration) -> Result<bool> {
        // Like a worker that nobody else knows of: only its own channel counts.
        let stranger = Worker { store: self.clone(), calls: self.clone(), id: WorkerId::new() };
        let mut listener = Listener::connect(url, stranger.id).await?;
        stranger.echo().await?;
        let echo = async {
            while listener.next().await? != News::Echo {}
            Ok(true)
        };
        tokio::time::timeout(patience, echo).await.unwrap_or(Ok(false))
    }
}
