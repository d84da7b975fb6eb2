use std::sync::Arc;
use std::time::Duration;

use adjutant_agent::{Refusal, SessionId, TaskNumber, TaskView, TextLimits};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, PgConnection, PgPool};
use tokio::sync::Notify;

use crate::batcher::Batcher;
use crate::connection_pool::ConnectionPool;
use crate::event_notifier::EventNotifier;
use crate::history::SEARCH_TIME;
use crate::outage::Outage;
use crate::spawn_concurrent::ConcurrentSpawn;
use crate::time_limits::TimeLimits;
use crate::worker_notifier::WorkerNotifier;
use crate::{Actor, Result, Spawned, TenantLimits, schema};

/// How long connecting may take.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection that was idle for longer is pinged before it is used.
const PING_AFTER: Duration = Duration::from_secs(1);

/// The most concurrent calls of [`Store::for_reads`]. They are opened when they are needed.
const READERS: u32 = 12;

/// How many changes of each key of a shared context are kept.
pub const DEFAULT_CONTEXT_VERSIONS: i32 = 100;

/// Limits for the connections of one [`Store`].
#[derive(Debug, Clone, Copy)]
pub struct Connections {
    /// The most concurrent calls; each has its own connection.
    pub max: u32,
    /// The most time for one call. A connection whose peer vanished without closing it would block
    /// for ever.
    pub call_timeout: Duration,
}

impl Connections {
    pub fn up_to(max: u32) -> Self {
        Self { max, call_timeout: Duration::from_secs(30) }
    }
}

/// The durable state of delegation. Cheap to clone: clones share their connections.
#[derive(Debug, Clone)]
pub struct Store {
    pub(crate) pool: PgPool,
    pub(crate) worker_notifier: Arc<WorkerNotifier>,
    pub(crate) limits: TenantLimits,
    pub(crate) actor: Option<Arc<Actor>>,
    pub(crate) context_versions: i32,
    pub(crate) texts: TextLimits,
    /// A search of the history that takes longer returns a short page.
    pub(crate) search_time: Duration,
    pub(crate) event_notifier: Arc<EventNotifier>,
    pub(crate) delegations: Arc<Batcher<ConcurrentSpawn, Option<Spawned>>>,
    pub(crate) status_calls: Arc<Batcher<(SessionId, TaskNumber), Option<TaskView>>>,
    /// Signals that this process has webhook deliveries to make.
    pub(crate) deliveries: Arc<Notify>,
    connections: Arc<ConnectionPool>,
    readers: Arc<ConnectionPool>,
}

impl Store {
    /// Connects, and fails if the database's schema does not fit this program.
    pub async fn open(url: &str, max_connections: u32) -> Result<Self> {
        Self::open_with(url, Connections::up_to(max_connections)).await
    }

    /// Like [`Store::open`], with a timeout for calls.
    pub async fn open_with(url: &str, connections: Connections) -> Result<Self> {
        Self::open_pinging(url, connections, PING_AFTER).await
    }

    /// Like [`Store::open`], for a loop that makes at most two concurrent calls and repeats a
    /// failed one. Idle connections are not pinged before a call, which saves a round trip.
    pub async fn open_without_ping(url: &str, call_timeout: Duration) -> Result<Self> {
        Self::open_pinging(url, Connections { max: 2, call_timeout }, Duration::MAX).await
    }

    async fn open_pinging(
        url: &str,
        connections: Connections,
        ping_after: Duration,
    ) -> Result<Self> {
        // Two more connections for the statements that do not go through `call`.
        let most = connections.max + READERS + 2;
        let pool = PgPoolOptions::new().max_connections(most);
        let pool = connect(url, pool, TimeLimits::MAINTENANCE).await?;
        schema::check(&pool).await?;
        let readers = Connections { max: READERS, ..connections };
        let outage = Outage::of(url);
        let calls = |limits| ConnectionPool::new(pool.clone(), limits, ping_after, outage.clone());
        let (readers, connections) = (Arc::new(calls(readers)), Arc::new(calls(connections)));
        Ok(Self {
            pool,
            worker_notifier: WorkerNotifier::new(connections.clone()),
            event_notifier: EventNotifier::new(connections.clone()),
            limits: TenantLimits::default(),
            actor: None,
            context_versions: DEFAULT_CONTEXT_VERSIONS,
            texts: TextLimits::DEFAULT,
            search_time: SEARCH_TIME,
            delegations: Arc::default(),
            status_calls: Arc::default(),
            deliveries: Arc::default(),
            connections,
            readers,
        })
    }

    /// A store that refuses sessions and tasks beyond these limits per tenant. Children of tasks
    /// are never refused by them. With limits, the spawns of a tenant are serialized; without, they
    /// cost nothing.
    pub fn with_limits(&self, limits: TenantLimits) -> Self {
        Self { limits, ..self.clone() }
    }

    /// A store for the calls of one caller: it lists, defines and spawns only what the caller is
    /// granted, and its tasks carry the grants. Without an actor nothing is limited.
    pub fn acting_for(&self, actor: Arc<Actor>) -> Self {
        Self { actor: Some(actor), ..self.clone() }
    }

    /// A store that keeps so many changes of each key in the history of shared contexts.
    pub fn with_context_versions(&self, context_versions: i32) -> Self {
        Self { context_versions, ..self.clone() }
    }

    /// A store whose shared contexts have these limits.
    pub fn with_text_limits(&self, texts: TextLimits) -> Self {
        Self { texts, ..self.clone() }
    }

    /// A store whose searches of the history return a short page after this time.
    pub fn with_search_time(&self, search_time: Duration) -> Self {
        Self { search_time, ..self.clone() }
    }

    /// A store for queries that may be slow, like statistics and searches: it has connections of
    /// its own, so that other calls never wait for these.
    pub fn for_reads(&self) -> Self {
        Self { connections: self.readers.clone(), ..self.clone() }
    }

    /// Sends all pending notices and closes all connections.
    pub async fn close(&self) {
        self.worker_notifier.flush().await;
        self.event_notifier.flush().await;
        self.connections.close();
        self.readers.close();
        self.pool.close().await;
    }

    /// Makes one call on one connection. The call's state of 8 KiB is boxed: otherwise every caller
    /// reserves it, also a client that waits for an hour between two calls.
    pub(crate) async fn call<T>(
        &self,
        call: impl AsyncFnOnce(&mut PgConnection) -> sqlx::Result<T>,
    ) -> Result<T> {
        Box::pin(self.connections.call(call)).await
    }
}

/// Opens a pool whose connections have these limits.
pub(crate) async fn connect(url: &str, pool: PgPoolOptions, limits: TimeLimits) -> Result<PgPool> {
    let options = options(url)?;
    // A single connection first: the pool would retry until its timeout, and then report only that.
    timeout(CONNECT_TIMEOUT, PgConnection::connect_with(&options)).await?.close().await?;
    let pool = pool
        .acquire_timeout(CONNECT_TIMEOUT)
        .after_connect(move |connection, _| Box::pin(limits.set(connection)))
        .test_before_acquire(false)
        .before_acquire(|connection, about| {
            Box::pin(async move {
                if about.idle_for > PING_AFTER {
                    connection.ping().await?;
                }
                Ok(true)
            })
        });
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
        let timed_out = std::io::Error::new(std::io::ErrorKind::TimedOut, "no answer in time");
        Err(sqlx::Error::Io(timed_out))
    })
}
