use adjutant_agent::SessionId;
use serde_json::{Value, json};

use super::render::put_text;
use super::{CancelCall, task_fields};
use crate::{Context, Result};

/// Cancels a task and its descendants, and answers with its text so far. A task that has ended does
/// not change.
pub(super) async fn cancel(
    context: &Context<'_>,
    session: SessionId,
    call: &CancelCall,
) -> Result<Value> {
    let cancelled = context.store.cancel_by_number(session, call.task_id).await?;
    context.log_cancelled(&cancelled.ended).await;
    let mut answer = task_fields::status(&cancelled.task);
    answer.insert("cancelled".to_owned(), json!(cancelled.changed));
    match &cancelled.partial_result {
        Some(text) => put_text(&mut answer, "partial_result", text),
        None => {
            answer.insert("partial_result".to_owned(), Value::Null);
        }
    }
    Ok(Value::Object(answer))
}
