//! Connections between calls. sqlx asks a connection whether it lives before it is used and after, which is two round trips
//! more; and takes the one that rested longest, so that each has to plan everything anew. Here the last one used is the next.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sqlx::pool::PoolConnection;
use sqlx::{Connection, PgConnection, PgPool, Postgres};
use tokio::sync::Semaphore;

use crate::store::{CONNECT, Connections, timeout};
use crate::{Error, Result};

/// After this long a connection is closed, and what the server keeps for it is freed.
const LONGEST_LIFE: Duration = Duration::from_secs(1800);

/// How long a call waits for a new connection. A server that refuses one is asked again and again by sqlx, for as long as it may;
/// whoever called has a time-out of its own, and can do better with an answer.
const NEW_CONNECTION: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(crate) struct Calls {
    pool: PgPool,
    resting: Mutex<Vec<Resting>>,
    at_once: Semaphore,
    patience: Duration,
    /// A connection that rested for longer is asked whether it still lives.
    fresh: Duration,
}

#[derive(Debug)]
struct Resting {
    connection: PoolConnection<Postgres>,
    opened_at: Instant,
    since: Instant,
}

impl Calls {
    pub(crate) fn new(pool: PgPool, connections: Connections, fresh: Duration) -> Self {
        Self {
            pool,
            resting: Mutex::default(),
            at_once: Semaphore::new(usize::try_from(connections.max).unwrap_or(usize::MAX)),
            patience: connections.patience,
            fresh,
        }
    }

    /// One call on one connection. One that takes too long is given up, and its connection with it.
    pub(crate) async fn call<T>(
        &self,
        call: impl AsyncFnOnce(&mut PgConnection) -> sqlx::Result<T>,
    ) -> Result<T> {
        let turn = tokio::time::timeout(CONNECT, self.at_once.acquire()).await;
        let Ok(Ok(_turn)) = turn else { return Err(Error::Unavailable(sqlx::Error::PoolTimedOut)) };
        // In memory of its own: of a thousand loops few are in a call, and all would have room for the largest.
        Box::pin(self.make(call)).await
    }

    async fn make<T>(
        &self,
        call: impl AsyncFnOnce(&mut PgConnection) -> sqlx::Result<T>,
    ) -> Result<T> {
        let (mut connection, opened_at) = self.connection().await?;
        let answer = timeout(self.patience, call(&mut connection)).await;
        if matches!(answer, Err(sqlx::Error::Io(_) | sqlx::Error::Protocol(_))) {
            connection.close_on_drop();
        } else if opened_at.elapsed() < LONGEST_LIFE && !self.pool.is_closed() {
            self.resting().push(Resting { connection, opened_at, since: Instant::now() });
        }
        Ok(answer?)
    }

    async fn connection(&self) -> Result<(PoolConnection<Postgres>, Instant)> {
        loop {
            let Some(mut last) = self.resting().pop() else {
                return Ok((timeout(NEW_CONNECTION, self.pool.acquire()).await?, Instant::now()));
            };
            if last.since.elapsed() < self.fresh
                || timeout(CONNECT, last.connection.ping()).await.is_ok()
            {
                return Ok((last.connection, last.opened_at));
            }
            last.connection.close_on_drop();
        }
    }

    pub(crate) fn close(&self) {
        self.resting().clear();
    }

    fn resting(&self) -> MutexGuard<'_, Vec<Resting>> {
        self.resting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
