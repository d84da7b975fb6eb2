//! Where requests come in.

pub mod events;
mod stream;

use adjutant_agent::ErrorCode;
use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::Error;

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let answer = |status, code: ErrorCode, message: String| {
            (status, Json(json!({"error": code, "message": message}))).into_response()
        };
        match self {
            Self::Refused(refusal) => answer(status(refusal.code), refusal.code, refusal.message),
            Self::Unavailable(_) => {
                let message = "The database is not available".to_owned();
                let response = answer(StatusCode::SERVICE_UNAVAILABLE, ErrorCode::Internal, message);
                ([(header::RETRY_AFTER, "1")], response).into_response()
            }
            Self::Internal(error) => {
                tracing::error!("a request failed: {error}");
                answer(StatusCode::INTERNAL_SERVER_ERROR, ErrorCode::Internal, "Internal error".to_owned())
            }
        }
    }
}

fn status(code: ErrorCode) -> StatusCode {
    match code {
        ErrorCode::AgentNotFound
        | ErrorCode::KeyNotFound
        | ErrorCode::SessionNotFound
        | ErrorCode::TaskNotFound => StatusCode::NOT_FOUND,
        ErrorCode::AgentAlreadyExists
        | ErrorCode::SessionAlreadyExists
        | ErrorCode::SessionArchived
        | ErrorCode::StoreFull
        | ErrorCode::TaskNotReady
        | ErrorCode::IdempotencyConflict => StatusCode::CONFLICT,
        ErrorCode::MaxTasksExceeded => StatusCode::TOO_MANY_REQUESTS,
        ErrorCode::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        ErrorCode::InvalidAction
        | ErrorCode::InvalidAgentName
        | ErrorCode::InvalidArgument
        | ErrorCode::InvalidKey
        | ErrorCode::InvalidModel
        | ErrorCode::InvalidTool
        | ErrorCode::PromptTooLarge
        | ErrorCode::TaskTooLarge
        | ErrorCode::ValueTooLarge => StatusCode::BAD_REQUEST,
    }
}
