use std::time::Duration;

use adjutant_agent::{ErrorCode, Refusal};
use axum::Json;
use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use uuid::Uuid;

use crate::tenant_counter::Exceeded;

/// The `Retry-After` of errors whose duration is unknown.
const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(1);

/// Why a request failed, by the kind of response that it gets.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The caller's fault: the code and the message are the answer.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The caller exceeded a rate limit: the same call succeeds after this long.
    #[error("too many requests; retry in {} s", whole_seconds(*.0))]
    RateLimited(Duration),
    /// The tenant, or all tenants, hold as much of something as they may at this server: the same
    /// call may succeed soon.
    #[error("{message}; retry in {} s", whole_seconds(*after))]
    TooMany { message: String, after: Duration },
    /// The database is not available: the same call may succeed later.
    #[error("the database is not available")]
    Unavailable(#[source] adjutant_store::Error),
    /// A bug; the inner text is logged and never sent.
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
    /// Whether the database cannot be reached, which its store has logged.
    pub(crate) fn is_outage(&self) -> bool {
        matches!(self, Self::Unavailable(inner) if inner.is_outage())
    }

    pub(crate) fn refused(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::Refused(Refusal::new(code, message))
    }

    /// What a refused caller reads: `what` is the plural of what it would have one too many of.
    pub(crate) fn too_many(what: &str, exceeded: Exceeded, after: Duration) -> Self {
        let message = match exceeded {
            Exceeded::Tenant(most) => {
                format!("The tenant has {most} {what} at this server, which is all it may have")
            }
            Exceeded::Total(most) => format!("This server has {most} {what}, which is its limit"),
        };
        Self::TooMany { message, after }
    }

    /// A broken invariant.
    pub(crate) fn bug(cause: &dyn std::fmt::Display) -> Self {
        Self::refused(ErrorCode::Internal, internal(cause))
    }

    /// The code in the answer.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Refused(refusal) => refusal.code,
            Self::RateLimited(_) | Self::TooMany { .. } => ErrorCode::RateLimited,
            Self::Unavailable(_) => ErrorCode::Unavailable,
            Self::Internal(_) => ErrorCode::Internal,
        }
    }

    /// The message in the answer. A bug is logged here, once, under a trace id that the answer
    /// names.
    pub fn into_message(self) -> String {
        match self {
            Self::Refused(refusal) => refusal.message,
            Self::RateLimited(_) => format!("T{}", &self.to_string()[1..]),
            Self::Unavailable(inner) if inner.is_lock_timeout() => {
                "Another request has held the session for too long; retry soon".to_owned()
            }
            Self::TooMany { .. } => self.to_string(),
            Self::Unavailable(_) => "The database is not available; retry soon".to_owned(),
            Self::Internal(inner) => internal(&inner),
        }
    }
}

/// Logs a bug, and returns the message for the caller.
pub(crate) fn internal(cause: &dyn std::fmt::Display) -> String {
    let trace = Uuid::now_v7().simple();
    tracing::error!(trace.id = %trace, "internal error: {cause}");
    format!("Internal error; the server's log has more under trace id {trace}")
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let code = self.code();
        let after = match &self {
            Self::RateLimited(after) | Self::TooMany { after, .. } => *after,
            Self::Refused(_) | Self::Unavailable(_) | Self::Internal(_) => DEFAULT_RETRY_AFTER,
        };
        error_response(code, &self.into_message(), after)
    }
}

/// The response of every error.
pub(crate) fn error_response(code: ErrorCode, message: &str, after: Duration) -> Response {
    let status = status(code);
    let mut response = (status, Json(json!({"error": code, "message": message}))).into_response();
    if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(whole_seconds(after)));
    }
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

pub(crate) fn immediate_error(code: ErrorCode, message: &str) -> Response {
    error_response(code, message, DEFAULT_RETRY_AFTER)
}

/// Rounded up, so that no client retries too early, and at least one.
fn whole_seconds(after: Duration) -> u64 {
    let more = u64::from(after.subsec_nanos() > 0);
    after.as_secs().saturating_add(more).max(1)
}

/// The HTTP status of each code (specification, section H).
pub(crate) fn status(code: ErrorCode) -> StatusCode {
    match code {
        ErrorCode::InvalidAction
        | ErrorCode::InvalidAgentName
        | ErrorCode::InvalidArgument
        | ErrorCode::InvalidKey
        | ErrorCode::InvalidModel
        | ErrorCode::InvalidTool
        | ErrorCode::PromptTooLarge
        | ErrorCode::TaskTooLarge
        | ErrorCode::ValueTooLarge => StatusCode::BAD_REQUEST,
        ErrorCode::Unauthenticated => StatusCode::UNAUTHORIZED,
        ErrorCode::Forbidden => StatusCode::FORBIDDEN,
        ErrorCode::AgentNotFound
        | ErrorCode::DeliveryNotFound
        | ErrorCode::KeyNotFound
        | ErrorCode::RouteNotFound
        | ErrorCode::SessionNotFound
        | ErrorCode::TaskNotFound
        | ErrorCode::ToolNotFound
        | ErrorCode::WebhookSecretNotFound => StatusCode::NOT_FOUND,
        ErrorCode::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        ErrorCode::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
        ErrorCode::AgentAlreadyExists
        | ErrorCode::IdempotencyConflict
        | ErrorCode::SessionAlreadyExists
        | ErrorCode::SessionArchived
        | ErrorCode::StoreFull
        | ErrorCode::TaskNotReady => StatusCode::CONFLICT,
        ErrorCode::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        ErrorCode::HeadersTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        ErrorCode::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        ErrorCode::MaxSessionsExceeded | ErrorCode::MaxTasksExceeded | ErrorCode::RateLimited => {
            StatusCode::TOO_MANY_REQUESTS
        }
        ErrorCode::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        ErrorCode::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
    }
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use serde_json::Value;

    use super::*;

    async fn body(response: Response) -> Value {
        serde_json::from_slice(&to_bytes(response.into_body(), 10_000).await.unwrap()).unwrap()
    }

    #[test]
    fn the_status_follows_from_the_name_of_the_code() {
        for code in ErrorCode::ALL {
            let (word, status) = (code.as_str(), status(*code).as_u16());
            let expected = if word == "BODY_TOO_LARGE" {
                413
            } else if word == "HEADERS_TOO_LARGE" {
                431
            } else if word.starts_with("INVALID_") || word.ends_with("_TOO_LARGE") {
                400
            } else if word.ends_with("_NOT_FOUND") {
                404
            } else if word.ends_with("_ALREADY_EXISTS") {
                409
            } else {
                continue;
            };
            assert_eq!(status, expected, "{word}");
        }
    }

    #[tokio::test]
    async fn an_error_is_a_code_and_a_message_and_nothing_else() {
        let response =
            Error::refused(ErrorCode::TaskNotFound, "Task not found: t_09").into_response();
        assert_eq!(response.status(), 404);
        assert!(response.headers().get(RETRY_AFTER).is_none());
        assert_eq!(
            body(response).await,
            json!({"error": "TASK_NOT_FOUND", "message": "Task not found: t_09"})
        );
    }

    #[tokio::test]
    async fn an_error_that_may_pass_has_a_retry_after() {
        for (error, status, after) in [
            (Error::RateLimited(Duration::from_millis(2_100)), 429, "3"),
            (Error::refused(ErrorCode::MaxTasksExceeded, "5 tasks are active"), 429, "1"),
        ] {
            let response = error.into_response();
            assert_eq!(response.status(), status);
            assert_eq!(response.headers()[RETRY_AFTER], after);
        }
        let response = Error::RateLimited(Duration::from_millis(10)).into_response();
        assert_eq!(body(response).await["message"], "Too many requests; retry in 1 s");
    }

    #[tokio::test]
    async fn an_inner_error_is_never_sent() {
        let inner: adjutant_store::Error = Refusal::new(ErrorCode::Internal, "secret").into();
        let response = Error::Internal(inner).into_response();
        assert_eq!(response.status(), 500);
        let body = body(response).await;
        assert_eq!(body["error"], "INTERNAL");
        let message = body["message"].as_str().unwrap();
        assert!(message.contains("trace id") && !message.contains("secret"), "{message}");
    }
}
