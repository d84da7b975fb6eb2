use std::sync::Arc;
use std::time::Duration;

use adjutant_agent::Refusal;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, PgConnection, PgPool, Postgres};
use tokio::sync::Mutex;

use crate::notice::Notices;
use crate::{Result, schema};

/// How long a connection may take.
pub(crate) const CONNECT: Duration = Duration::from_secs(10);

/// A connection that rested for longer is asked whether it still lives before it is used.
const FRESH: Duration = Duration::from_secs(1);

/// How a program uses the database.
#[derive(Debug, Clone, Copy)]
pub struct Connections {
    /// The most connections that it keeps.
    pub max: u32,
    /// The longest that a call may take: a connection whose other end went away without a word would never answer.
    pub patience: Duration,
}

impl Connections {
    pub fn up_to(max: u32) -> Self {
        Self { max, patience: Duration::from_secs(30) }
    }
}

/// The durable state of delegation. Cheap to clone: clones share one pool of connections.
#[derive(Debug, Clone)]
pub struct Store {
    pub(crate) pool: PgPool,
    pub(crate) notices: Arc<Notices>,
    patience: Duration,
    line: Option<Line>,
}

/// A connection that is kept between calls, while it is whole.
type Line = Arc<Mutex<Option<PoolConnection<Postgres>>>>;

impl Store {
    /// Connects, and refuses a database whose schema this program does not fit.
    pub async fn open(url: &str, max_connections: u32) -> Result<Self> {
        Self::open_with(url, Connections::up_to(max_connections)).await
    }

    /// As [`Store::open`], with more to choose.
    pub async fn open_with(url: &str, connections: Connections) -> Result<Self> {
        let pool = connect(url, PgPoolOptions::new().max_connections(connections.max)).await?;
        let notices = Notices::over(pool.clone());
        let store = Self { notices, pool, patience: connections.patience, line: None };
        schema::check(&store.pool).await?;
        Ok(store)
    }

    /// As [`Store::open`], over a single connection: calls are made one after the other. It spares a loop the two round
    /// trips by which a pool makes sure of a connection, and the server the plans of all the others.
    pub async fn open_line(url: &str, patience: Duration) -> Result<Self> {
        // The second is for the time in which a broken one is being closed.
        let store = Self::open_with(url, Connections { max: 2, patience }).await?;
        Ok(Self { line: Some(Line::default()), ..store })
    }

    /// Waits until every notice is sent and every connection is closed.
    pub async fn close(&self) {
        if let Some(line) = &self.line {
            line.lock().await.take();
        }
        self.notices.flush().await;
        self.pool.close().await;
    }

    /// One call on one connection. One that takes too long is given up, and its connection with it.
    pub(crate) async fn call<T>(
        &self,
        call: impl AsyncFnOnce(&mut PgConnection) -> sqlx::Result<T>,
    ) -> Result<T> {
        let mut line = match &self.line {
            Some(line) => Some(line.lock().await),
            None => None,
        };
        let mut connection = match line.as_mut().and_then(|line| line.take()) {
            Some(kept) => kept,
            None => self.pool.acquire().await?,
        };
        let answer = timeout(self.patience, call(&mut connection)).await;
        if matches!(answer, Err(sqlx::Error::Io(_) | sqlx::Error::Protocol(_))) {
            connection.close_on_drop();
        } else if let Some(line) = &mut line {
            **line = Some(connection);
        }
        Ok(answer?)
    }
}

pub(crate) async fn connect(url: &str, pool: PgPoolOptions) -> Result<PgPool> {
    let options = options(url)?;
    // A connection by itself first: the pool would try for its whole time-out, and then name only that.
    timeout(CONNECT, PgConnection::connect_with(&options)).await?.close().await?;
    let pool =
        pool.acquire_timeout(CONNECT).test_before_acquire(false).before_acquire(|connection, about| {
            Box::pin(async move {
                if about.idle_for > FRESH {
                    connection.ping().await?;
                }
                Ok(true)
            })
        });
    Ok(pool.connect_with(options).await?)
}

pub(crate) fn options(url: &str) -> Result<PgConnectOptions> {
    if !["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) {
        return Err(Refusal::invalid("database_url", "must be like postgres://user@host/database").into());
    }
    let options: PgConnectOptions = url.parse().map_err(|error| Refusal::invalid("database_url", error))?;
    Ok(options.application_name("adjutant"))
}

pub(crate) async fn timeout<T>(
    limit: Duration,
    work: impl Future<Output = sqlx::Result<T>>,
) -> sqlx::Result<T> {
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
        let silence = std::io::Error::new(std::io::ErrorKind::TimedOut, "it does not answer");
        Err(sqlx::Error::Io(silence))
    })
}
