use std::time::Duration;

use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use crate::{Error, Result, schema};

/// The durable state of delegation. Cheap to clone: clones share one pool of connections.
#[derive(Debug, Clone)]
pub struct Store {
    pub(crate) pool: PgPool,
}

impl Store {
    /// Connects, and refuses a database whose schema this program does not fit.
    pub async fn open(url: &str, max_connections: u32) -> Result<Self> {
        let store = Self { pool: connect(url, max_connections).await? };
        schema::check(&store.pool).await?;
        Ok(store)
    }

    /// Waits until every connection is closed.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}

pub(crate) async fn connect(url: &str, max_connections: u32) -> Result<PgPool> {
    let options: PgConnectOptions = url.parse().map_err(Error::Unavailable)?;
    Ok(PgPoolOptions::new()
        .max_connections(max_connections)
        .acquire_timeout(Duration::from_secs(10))
        .connect_with(options.application_name("adjutant"))
        .await?)
}
