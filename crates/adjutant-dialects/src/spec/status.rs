use adjutant_agent::{Refusal, SessionId};
use serde_json::Value;

use super::{StatusCall, task_fields};
use crate::{Context, Result};

/// The state of a task; one that was collected is not found.
pub(super) async fn status(
    context: &Context<'_>,
    session: SessionId,
    call: &StatusCall,
) -> Result<Value> {
    let task = context.store.status(session, call.task_id).await?;
    if task.collected_at.is_some() {
        return Err(Refusal::no_task(call.task_id, task.collected_at).into());
    }
    Ok(Value::Object(task_fields::status(&task)))
}
