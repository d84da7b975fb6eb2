use crate::words::words;

words! {
    /// Why a request was refused, in the words of the wire.
    ErrorCode {
        IdempotencyConflict = "IDEMPOTENCY_CONFLICT",
        InvalidArgument = "INVALID_ARGUMENT",
        MaxTasksExceeded = "MAX_TASKS_EXCEEDED",
        SessionAlreadyExists = "SESSION_ALREADY_EXISTS",
        SessionArchived = "SESSION_ARCHIVED",
        SessionNotFound = "SESSION_NOT_FOUND",
        TaskNotFound = "TASK_NOT_FOUND",
        TaskNotReady = "TASK_NOT_READY",
    }
}

/// A request that cannot be granted: a code for programs and a sentence for their readers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Refusal {
    pub code: ErrorCode,
    pub message: String,
}

impl Refusal {
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// The argument `field` is not what it should be.
    pub fn invalid(field: &str, problem: impl std::fmt::Display) -> Self {
        Self::new(ErrorCode::InvalidArgument, format!("{field}: {problem}"))
    }
}
