use chrono::{DateTime, Utc};

use crate::word_enum::word_enum;
use crate::{TaskNumber, timestamp};

word_enum! {
    /// The code of a refused request.
    ErrorCode {
        AgentAlreadyExists = "AGENT_ALREADY_EXISTS",
        AgentNotFound = "AGENT_NOT_FOUND",
        BodyTooLarge = "BODY_TOO_LARGE",
        DeliveryNotFound = "DELIVERY_NOT_FOUND",
        Forbidden = "FORBIDDEN",
        HeadersTooLarge = "HEADERS_TOO_LARGE",
        IdempotencyConflict = "IDEMPOTENCY_CONFLICT",
        Internal = "INTERNAL",
        InvalidAction = "INVALID_ACTION",
        InvalidAgentName = "INVALID_AGENT_NAME",
        InvalidArgument = "INVALID_ARGUMENT",
        InvalidKey = "INVALID_KEY",
        InvalidModel = "INVALID_MODEL",
        InvalidTool = "INVALID_TOOL",
        KeyNotFound = "KEY_NOT_FOUND",
        MaxSessionsExceeded = "MAX_SESSIONS_EXCEEDED",
        MaxTasksExceeded = "MAX_TASKS_EXCEEDED",
        MethodNotAllowed = "METHOD_NOT_ALLOWED",
        PromptTooLarge = "PROMPT_TOO_LARGE",
        RateLimited = "RATE_LIMITED",
        RequestTimeout = "REQUEST_TIMEOUT",
        RouteNotFound = "ROUTE_NOT_FOUND",
        SessionAlreadyExists = "SESSION_ALREADY_EXISTS",
        SessionArchived = "SESSION_ARCHIVED",
        SessionNotFound = "SESSION_NOT_FOUND",
        StoreFull = "STORE_FULL",
        TaskNotFound = "TASK_NOT_FOUND",
        TaskNotReady = "TASK_NOT_READY",
        TaskTooLarge = "TASK_TOO_LARGE",
        ToolNotFound = "TOOL_NOT_FOUND",
        Unauthenticated = "UNAUTHENTICATED",
        Unavailable = "UNAVAILABLE",
        UnsupportedMediaType = "UNSUPPORTED_MEDIA_TYPE",
        ValueTooLarge = "VALUE_TOO_LARGE",
        WebhookSecretNotFound = "WEBHOOK_SECRET_NOT_FOUND",
    }
}

/// The refusal of a request: a code for programs and a message for people.
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

    /// The task does not exist for the caller, or the caller has collected it.
    pub fn no_task(task: TaskNumber, collected_at: Option<DateTime<Utc>>) -> Self {
        let message = match collected_at {
            Some(at) => format!(
                "Task {task} was already collected at {}; use read to see its result again",
                timestamp::utc(at)
            ),
            None => format!("Task not found: {task}"),
        };
        Self::new(ErrorCode::TaskNotFound, message)
    }

    /// The argument `field` is invalid.
    pub fn invalid(field: &str, problem: impl std::fmt::Display) -> Self {
        Self::new(ErrorCode::InvalidArgument, format!("{field}: {problem}"))
    }
}
