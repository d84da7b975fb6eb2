use std::sync::Arc;
use std::time::Duration;

use adjutant_agent::{Refusal, SessionId, TaskNumber, TaskView};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, PgConnection, PgPool};
use tokio::sync::Notify;

use crate::calls::Calls;
use crate::delegate_together::Plain;
use crate::event_notifier::EventNotifier;
use crate::notice::Notices;
use crate::together::Batcher;
use crate::{Result, Spawned, TenantLimits, schema};

/// How long a connection may take.
pub(crate) const CONNECT: Duration = Duration::from_secs(10);

/// A connection that rested for longer is asked whether it still lives before it is used.
const FRESH: Duration = Duration::from_secs(1);

/// How a program uses the database.
#[derive(Debug, Clone, Copy)]
pub struct Connections {
    /// The most calls that it makes at once, each on a connection.
    pub max: u32,
    /// The longest that a call may take: a connection whose other end went away without a word would never answer.
    pub patience: Duration,
}

impl Connections {
    pub fn up_to(max: u32) -> Self {
        Self { max, patience: Duration::from_secs(30) }
    }
}

/// The durable state of delegation. Cheap to clone: clones share their connections.
#[derive(Debug, Clone)]
pub struct Store {
    pub(crate) pool: PgPool,
    pub(crate) notices: Arc<Notices>,
    pub(crate) limits: TenantLimits,
    pub(crate) event_notifier: Arc<EventNotifier>,
    pub(crate) delegations: Arc<Batcher<Plain, Option<Spawned>>>,
    pub(crate) status_calls: Arc<Batcher<(SessionId, TaskNumber), Option<TaskView>>>,
    /// This process has deliveries to make.
    pub(crate) deliveries: Arc<Notify>,
    calls: Arc<Calls>,
}

impl Store {
    /// Connects, and refuses a database whose schema this program does not fit.
    pub async fn open(url: &str, max_connections: u32) -> Result<Self> {
        Self::open_with(url, Connections::up_to(max_connections)).await
    }

    /// As [`Store::open`], with more to choose.
    pub async fn open_with(url: &str, connections: Connections) -> Result<Self> {
        Self::open_checking(url, connections, FRESH).await
    }

    /// As [`Store::open`], for a loop that makes few calls at once and makes a failed one again: it is not asked before each
    /// whether the connection still lives.
    pub async fn open_line(url: &str, patience: Duration) -> Result<Self> {
        Self::open_checking(url, Connections { max: 2, patience }, Duration::MAX).await
    }

    async fn open_checking(url: &str, connections: Connections, fresh: Duration) -> Result<Self> {
        // What is not a call has one of the two more.
        let pool = connect(url, PgPoolOptions::new().max_connections(connections.max + 2)).await?;
        schema::check(&pool).await?;
        let calls = Arc::new(Calls::new(pool.clone(), connections, fresh));
        let (notices, event_notifier) =
            (Notices::over(calls.clone()), EventNotifier::over(calls.clone()));
        Ok(Self {
            pool,
            notices,
            event_notifier,
            limits: TenantLimits::default(),
            delegations: Arc::default(),
            status_calls: Arc::default(),
            deliveries: Arc::default(),
            calls,
        })
    }

    /// A store that makes no session and no task beyond these limits, whoever calls. Children of tasks are never refused by
    /// them. A tenant with limits spawns one call at a time; without, limits cost nothing.
    pub fn within(&self, limits: TenantLimits) -> Self {
        Self { limits, ..self.clone() }
    }

    /// Waits until every notice is sent and every connection is closed.
    pub async fn close(&self) {
        self.notices.flush().await;
        self.event_notifier.flush().await;
        self.calls.close();
        self.pool.close().await;
    }

    /// One call on one connection.
    pub(crate) async fn call<T>(
        &self,
        call: impl AsyncFnOnce(&mut PgConnection) -> sqlx::Result<T>,
    ) -> Result<T> {
        self.calls.call(call).await
    }
}

pub(crate) async fn connect(url: &str, pool: PgPoolOptions) -> Result<PgPool> {
    let options = options(url)?;
    // A connection by itself first: the pool would try for its whole time-out, and then name only that.
    timeout(CONNECT, PgConnection::connect_with(&options)).await?.close().await?;
    let pool = pool.acquire_timeout(CONNECT).test_before_acquire(false).before_acquire(
        |connection, about| {
            Box::pin(async move {
                if about.idle_for > FRESH {
                    connection.ping().await?;
                }
                Ok(true)
            })
        },
    );
    Ok(pool.connect_with(options).await?)
}

pub(crate) fn options(url: &str) -> Result<PgConnectOptions> {
    if !["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) {
        return Err(
            Refusal::invalid("database_url", "must be like postgres://user@host/database").into()
        );
    }
    let options: PgConnectOptions =
        url.parse().map_err(|error| Refusal::invalid("database_url", error))?;
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
