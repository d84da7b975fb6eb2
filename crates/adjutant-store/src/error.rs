use adjutant_agent::{Refusal, TaskId};
use sqlx::postgres::PgDatabaseError;

use crate::schema::SchemaMisfit;

/// What went wrong, split by what the caller does next.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request cannot be granted: answer with its code.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The task is somebody else's now: stop working on it, and drop what was not written.
    #[error("the lease on task {0} is lost")]
    LeaseLost(TaskId),
    /// The database's schema is not this program's: stop, and tell the operator.
    #[error(transparent)]
    Schema(#[from] SchemaMisfit),
    /// The database is away, overloaded or full: the same call may succeed later.
    #[error("the database is not available: {}", said(.0))]
    Unavailable(sqlx::Error),
    /// A bug, here or in the schema.
    #[error("the database refused it: {}", said(.0))]
    Unexpected(sqlx::Error),
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        if let sqlx::Error::Database(inner) = &error
            && let Some(answer) = inner.try_downcast_ref::<PgDatabaseError>()
            && let Some(meant) = meant_by(answer)
        {
            return meant;
        }
        if is_passing(&error) { Self::Unavailable(error) } else { Self::Unexpected(error) }
    }
}

/// The two errors that our own functions raise (migration 0004).
fn meant_by(answer: &PgDatabaseError) -> Option<Error> {
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

fn is_passing(error: &sqlx::Error) -> bool {
    if let sqlx::Error::Database(answer) = error {
        return answer.code().is_some_and(|code| is_passing_code(&code));
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

/// What PostgreSQL said, without the place in its own source that sqlx adds, and what to do about the usual mistakes.
fn said(error: &sqlx::Error) -> String {
    let sqlx::Error::Database(answer) = error else { return error.to_string() };
    let message = answer.message();
    match answer.code().as_deref() {
        Some("28P01" | "28000") => {
            format!("{message} (check the user and the password in the URL)")
        }
        Some("3D000") => format!("{message} (create it first, or check the name in the URL)"),
        Some("42501") => format!("{message} (Adjutant's user has to own its database)"),
        _ => message.to_owned(),
    }
}

/// Connection trouble (08), a transaction that lost a race (40), too few resources, a full disk among them (53), a lock or
/// a statement that timed out, shutting down or starting up (57P0x), IO errors (58), a stand-by that cannot write (25006).
fn is_passing_code(code: &str) -> bool {
    ["08", "40", "53", "58"].contains(&code.get(..2).unwrap_or_default())
        || code.starts_with("57P0")
        || ["55P03", "57014", "25006"].contains(&code)
}

impl Error {
    /// The same for another who asked for the same.
    pub(crate) fn again(&self) -> Self {
        let said = |error: &sqlx::Error| std::io::Error::other(said(error));
        match self {
            Self::Refused(refusal) => Self::Refused(refusal.clone()),
            Self::LeaseLost(task) => Self::LeaseLost(*task),
            Self::Schema(misfit) => Self::Schema(misfit.clone()),
            Self::Unavailable(error) => Self::Unavailable(sqlx::Error::Io(said(error))),
            Self::Unexpected(error) => Self::Unexpected(sqlx::Error::Decode(said(error).into())),
        }
    }

    /// Whether the same call may succeed later, unchanged.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}
