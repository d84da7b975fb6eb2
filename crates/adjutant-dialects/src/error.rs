use adjutant_agent::{ErrorCode, Refusal};
use uuid::Uuid;

use crate::Error;

/// Logs a state that cannot occur, and names the log entry in the answer.
pub(crate) fn bug(what: &dyn std::fmt::Display) -> Error {
    let trace = Uuid::now_v7().simple();
    tracing::error!(trace.id = %trace, "tool call failed because of a bug: {what}");
    let message = format!("Internal error; the server's log has more under trace id {trace}");
    Refusal::new(ErrorCode::Internal, message).into()
}
