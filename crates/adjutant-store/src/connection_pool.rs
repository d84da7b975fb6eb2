//! The connections of a store, reused last in, first out. The pool of sqlx pings a connection
//! before and after each use, which costs two round trips, and hands out the connection that was
//! idle longest, so that every connection has to prepare every statement. Here the connection that
//! was used last is used next.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sqlx::pool::PoolConnection;
use sqlx::{Connection, PgConnection, PgPool, Postgres};
use tokio::sync::Semaphore;

use crate::outage::Outage;
use crate::store::{CONNECT_TIMEOUT, Connections, timeout};
use crate::time_limits::TimeLimits;
use crate::{Error, Result};

/// A connection of this age is closed, which frees the memory that the server keeps for it.
const MAX_LIFETIME: Duration = Duration::from_secs(1800);

/// How long a call waits for a new connection. sqlx retries for as long as it may when the server
/// refuses connections; callers have timeouts of their own, and prefer an early error.
const NEW_CONNECTION_TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(crate) struct ConnectionPool {
    pool: PgPool,
    idle: Mutex<Vec<IdleConnection>>,
    permits: Semaphore,
    call_timeout: Duration,
    /// A connection that was idle for longer is pinged before it is used.
    ping_after: Duration,
    outage: Arc<Outage>,
}

#[derive(Debug)]
struct IdleConnection {
    connection: PoolConnection<Postgres>,
    opened_at: Instant,
    idle_since: Instant,
}

/// The connection of a call. If it is dropped, its socket is closed at once. (The pool of sqlx
/// would first wait for the statement to end.)
struct ClosedIfDropped(Option<PoolConnection<Postgres>>);

impl Drop for ClosedIfDropped {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            drop(connection.detach());
        }
    }
}

impl ConnectionPool {
    pub(crate) fn new(
        pool: PgPool,
        connections: Connections,
        ping_after: Duration,
        outage: Arc<Outage>,
    ) -> Self {
        Self {
            pool,
            idle: Mutex::default(),
            permits: Semaphore::new(usize::try_from(connections.max).unwrap_or(usize::MAX)),
            call_timeout: connections.call_timeout,
            ping_after,
            outage,
        }
    }

    /// Makes one call on one connection. If the call times out, or its caller drops it, the
    /// connection is closed at once, and the server cancels the statement.
    pub(crate) async fn call<T>(
        &self,
        call: impl AsyncFnOnce(&mut PgConnection) -> sqlx::Result<T>,
    ) -> Result<T> {
        let permit = tokio::time::timeout(CONNECT_TIMEOUT, self.permits.acquire()).await;
        let Ok(Ok(_permit)) = permit else {
            return Err(Error::Unavailable(sqlx::Error::PoolTimedOut));
        };
        // Boxed, so that the future of an agent loop does not reserve room for the largest call:
        // of a thousand loops, few are in a call at a time.
        let called_at = Instant::now();
        let answer = Box::pin(self.call_with_permit(call)).await;
        self.outage.record(called_at, &answer);
        answer
    }

    async fn call_with_permit<T>(
        &self,
        call: impl AsyncFnOnce(&mut PgConnection) -> sqlx::Result<T>,
    ) -> Result<T> {
        let (connection, opened_at) = self.connection().await?;
        let mut in_use = ClosedIfDropped(Some(connection));
        let answer = match &mut in_use.0 {
            Some(connection) => timeout(self.call_timeout, call(connection)).await,
            None => Err(sqlx::Error::PoolClosed),
        };
        let is_broken = matches!(answer, Err(sqlx::Error::Io(_) | sqlx::Error::Protocol(_)));
        if let Some(connection) = in_use.0.take_if(|_| !is_broken) {
            self.keep(connection, opened_at);
        }
        Ok(answer?)
    }

    /// Keeps a connection for the next call, unless it is old.
    fn keep(&self, mut connection: PoolConnection<Postgres>, opened_at: Instant) {
        if opened_at.elapsed() < MAX_LIFETIME && !self.pool.is_closed() {
            let idle_since = Instant::now();
            self.idle().push(IdleConnection { connection, opened_at, idle_since });
        } else {
            connection.close_on_drop();
        }
    }

    async fn connection(&self) -> Result<(PoolConnection<Postgres>, Instant)> {
        loop {
            let Some(mut last) = self.idle().pop() else {
                let open = async {
                    let mut connection = self.pool.acquire().await?;
                    TimeLimits::of_calls(self.call_timeout).set(&mut connection).await?;
                    Ok(connection)
                };
                return Ok((timeout(NEW_CONNECTION_TIMEOUT, open).await?, Instant::now()));
            };
            if last.idle_since.elapsed() < self.ping_after
                || timeout(CONNECT_TIMEOUT, last.connection.ping()).await.is_ok()
            {
                return Ok((last.connection, last.opened_at));
            }
            last.connection.close_on_drop();
        }
    }

    pub(crate) fn close(&self) {
        self.idle().clear();
    }

    fn idle(&self) -> MutexGuard<'_, Vec<IdleConnection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
