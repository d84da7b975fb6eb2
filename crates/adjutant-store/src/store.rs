use std::time::Duration;

use adjutant_agent::Refusal;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, PgConnection, PgPool};

use crate::{Result, schema};

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(10);

/// The durable state of delegation. Cheap to clone: clones share one pool of connections.
#[derive(Debug, Clone)]
pub struct Store {
    pub(crate) pool: PgPool,
}

impl Store {
    /// Connects, and refuses a database whose schema this program does not fit.
    pub async fn open(url: &str, max_connections: u32) -> Result<Self> {
        let store = Self { pool: connect(url, PgPoolOptions::new().max_connections(max_connections)).await? };
        schema::check(&store.pool).await?;
        Ok(store)
    }

    /// Waits until every connection is closed.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}

pub(crate) async fn connect(url: &str, pool: PgPoolOptions) -> Result<PgPool> {
    let options = options(url)?;
    // A connection by itself first: the pool would try for its whole time-out, and then name only that.
    timeout(CONNECT, PgConnection::connect_with(&options)).await?.close().await?;
    Ok(pool.acquire_timeout(CONNECT).connect_with(options).await?)
}

fn options(url: &str) -> Result<PgConnectOptions> {
    if !["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) {
        return Err(Refusal::invalid("database_url", "must be like postgres://user@host/database").into());
    }
    let options: PgConnectOptions = url.parse().map_err(|error| Refusal::invalid("database_url", error))?;
    Ok(options.application_name("adjutant"))
}

async fn timeout<T>(limit: Duration, work: impl Future<Output = sqlx::Result<T>>) -> sqlx::Result<T> {
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
        let silence = std::io::Error::new(std::io::ErrorKind::TimedOut, "it does not answer");
        Err(sqlx::Error::Io(silence))
    })
}
