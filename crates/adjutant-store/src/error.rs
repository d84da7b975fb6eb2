use adjutant_agent::{Refusal, TaskId};
use sqlx::postgres::PgDatabaseError;

use crate::schema::SchemaMismatch;

/// An error of the store, split by what the caller does next.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request is invalid or over a limit: return its code to the client.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The worker no longer holds the task: stop the attempt and discard its unwritten state.
    #[error("the lease on task {0} is lost")]
    LeaseLost(TaskId),
    /// The database's schema does not fit this program: exit and report it to the operator.
    #[error(transparent)]
    Schema(#[from] SchemaMismatch),
    /// The database is unreachable, overloaded or full: the same call may succeed later.
    #[error("the database is not available: {}", message(.0))]
    Unavailable(sqlx::Error),
    /// A bug in this program or in the schema.
    #[error("the database rejected a statement: {}", message(.0))]
    Unexpected(sqlx::Error),
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        if let sqlx::Error::Database(inner) = &error
            && let Some(answer) = inner.try_downcast_ref::<PgDatabaseError>()
            && let Some(raised) = raised_by(answer)
        {
            return raised;
        }
        if is_transient(&error) { Self::Unavailable(error) } else { Self::Unexpected(error) }
    }
}

/// The two errors that the SQL functions raise themselves: a refusal and a lost lease.
fn raised_by(answer: &PgDatabaseError) -> Option<Error> {
    match answer.code() {
        "AJ001" => {
            let code = answer.detail()?.parse().ok()?;
            Some(Refusal::new(code, answer.message()).into())
        }
        "AJ002" => {
            let task = answer.message().split(' ').find_map(|word| word.parse().ok())?;
            Some(Error::LeaseLost(TaskId(task)))
        }
        _ => None,
    }
}

fn is_transient(error: &sqlx::Error) -> bool {
    if let sqlx::Error::Database(answer) = error {
        return answer.code().is_some_and(|code| is_transient_code(&code));
    }
    matches!(
        error,
        sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed
    )
}

/// PostgreSQL's message, without the source location that sqlx adds, and with a hint for the usual
/// mistakes.
fn message(error: &sqlx::Error) -> String {
    let sqlx::Error::Database(answer) = error else { return error.to_string() };
    let text = answer.message();
    match answer.code().as_deref() {
        Some("28P01" | "28000") => {
            format!("{text} (check the user and the password in the URL)")
        }
        Some("3D000") => format!("{text} (create it first, or check the name in the URL)"),
        Some("42501") => format!("{text} (Adjutant's user has to own its database)"),
        _ => text.to_owned(),
    }
}

/// SQLSTATE classes of connection errors (08), serialization failures and deadlocks (40),
/// insufficient resources (53) and I/O errors (58); shutdown and startup (57P0x); lock timeout
/// (55P03), statement timeout (57014), idle transaction timeout (25P03), and a read-only standby
/// (25006).
fn is_transient_code(code: &str) -> bool {
    ["08", "40", "53", "58"].contains(&code.get(..2).unwrap_or_default())
        || code.starts_with("57P0")
        || [LOCK_TIMEOUT, "57014", "25P03", "25006"].contains(&code)
}

/// The SQLSTATE of a statement that did not get a lock in time.
pub(crate) const LOCK_TIMEOUT: &str = "55P03";

impl Error {
    /// Whether the call did not get a lock in time: the database is fine, but another transaction
    /// has held the session for long.
    pub fn is_lock_timeout(&self) -> bool {
        let Self::Unavailable(sqlx::Error::Database(answer)) = self else { return false };
        answer.code().as_deref() == Some(LOCK_TIMEOUT)
    }

    /// A copy, for another caller of the same batch.
    pub(crate) fn duplicate(&self) -> Self {
        let copy = |error: &sqlx::Error| std::io::Error::other(message(error));
        match self {
            Self::Refused(refusal) => Self::Refused(refusal.clone()),
            Self::LeaseLost(task) => Self::LeaseLost(*task),
            Self::Schema(mismatch) => Self::Schema(mismatch.clone()),
            Self::Unavailable(sqlx::Error::Io(error)) => {
                let copy = std::io::Error::new(error.kind(), error.to_string());
                Self::Unavailable(sqlx::Error::Io(copy))
            }
            Self::Unavailable(error) if self.is_outage() => {
                let kind = std::io::ErrorKind::ConnectionAborted;
                Self::Unavailable(sqlx::Error::Io(std::io::Error::new(kind, message(error))))
            }
            Self::Unavailable(error) => Self::Unavailable(sqlx::Error::Io(copy(error))),
            Self::Unexpected(error) => Self::Unexpected(sqlx::Error::Decode(copy(error).into())),
        }
    }

    /// Whether the database cannot be reached. Unlike a timeout of one statement, this concerns all
    /// calls, and is logged once for all of them.
    pub fn is_outage(&self) -> bool {
        let Self::Unavailable(error) = self else { return false };
        if let sqlx::Error::Database(answer) = error {
            return answer
                .code()
                .is_some_and(|code| code.starts_with("08") || code.starts_with("57P0"));
        }
        // A copy for another caller has the kind Other.
        matches!(error, sqlx::Error::Io(error) if error.kind() != std::io::ErrorKind::Other)
            || matches!(error, sqlx::Error::Tls(_) | sqlx::Error::Protocol(_))
    }

    /// Whether the same call may succeed later, unchanged.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}
