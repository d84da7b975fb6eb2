use adjutant_agent::{ErrorCode, Refusal};

/// Why a call has no answer, split by what becomes of it at the edge.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The caller's to mend: its code and its sentence are the answer.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The database is away: the same call may succeed later.
    #[error("the database is not available")]
    Unavailable(#[source] adjutant_store::Error),
    /// Ours to mend; the inner text never leaves.
    #[error("internal error")]
    Internal(#[source] adjutant_store::Error),
}

impl From<adjutant_store::Error> for Error {
    fn from(error: adjutant_store::Error) -> Self {
        match error {
            adjutant_store::Error::Refused(refusal) => Self::Refused(refusal),
            adjutant_store::Error::Unavailable(_) => Self::Unavailable(error),
            adjutant_store::Error::LeaseLost(_)
            | adjutant_store::Error::Schema(_)
            | adjutant_store::Error::Unexpected(_) => Self::Internal(error),
        }
    }
}

impl Error {
    /// The code of a refusal.
    pub(crate) fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused(refusal) => Some(refusal.code),
            Self::Unavailable(_) | Self::Internal(_) => None,
        }
    }
}
