//! How long the server works on a statement. Each limit of the server is below that of its caller,
//! so that a call usually ends with an error and its connection can be used again. A caller that
//! gives up, or dies, closes its connection, and the server then cancels what runs on it.

use std::time::Duration;

use sqlx::{AssertSqlSafe, Executor, PgConnection};

/// How often the server checks during a statement whether its client still exists.
const CHECK_CLIENT_EVERY: Duration = Duration::from_secs(1);

/// The longest wait of a call for a lock. Locks are held for milliseconds.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// The limits of the server for one connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeLimits {
    /// Of one statement; zero: none.
    pub(crate) statement: Duration,
    /// Of one wait for a lock.
    pub(crate) lock: Duration,
    /// Of a pause between two statements of a transaction.
    pub(crate) idle_in_transaction: Duration,
}

impl TimeLimits {
    /// For connections whose statements are no calls: maintenance, and checks of whole tables.
    pub(crate) const MAINTENANCE: Self = Self {
        statement: Duration::from_secs(3600),
        lock: Duration::from_secs(10),
        idle_in_transaction: Duration::from_secs(60),
    };

    /// For migrations, which may take any time. One that does not get its lock is repeated:
    /// everything else would queue up behind it.
    pub(crate) const MIGRATIONS: Self = Self {
        statement: Duration::ZERO,
        lock: Duration::from_secs(60),
        idle_in_transaction: Duration::from_secs(300),
    };

    /// For connections that wait for notices.
    pub(crate) const LISTEN: Self = Self {
        statement: Duration::from_secs(10),
        lock: Duration::from_secs(5),
        idle_in_transaction: Duration::from_secs(10),
    };

    /// For calls whose callers give up after `call_timeout`.
    pub(crate) fn of_calls(call_timeout: Duration) -> Self {
        Self {
            statement: call_timeout * 9 / 10,
            lock: (call_timeout / 2).min(LOCK_TIMEOUT),
            idle_in_transaction: call_timeout,
        }
    }

    /// Sets the limits for all further statements of this connection, in one round trip. They are
    /// not sent when the connection is opened, because poolers refuse options there.
    pub(crate) async fn set(self, connection: &mut PgConnection) -> sqlx::Result<()> {
        // A server on a platform that cannot check its clients refuses the last setting.
        let statement = format!(
            "set statement_timeout = {}; set lock_timeout = {}; set idle_in_transaction_session_timeout = {};
             do $$ begin
                 set client_connection_check_interval = {};
             exception when invalid_parameter_value then
                 null;
             end $$",
            self.statement.as_millis(),
            self.lock.as_millis().max(1),
            self.idle_in_transaction.as_millis().max(1),
            CHECK_CLIENT_EVERY.as_millis(),
        );
        connection.execute(AssertSqlSafe(statement)).await?;
        Ok(())
    }
}
