use adjutant_agent::SessionId;
use serde_json::Value;

use super::{RaiseCall, task_fields};
use crate::{Context, Result};

/// Raises the budget of a task, which goes on if it waits for that, and answers with its status.
pub(super) async fn raise(
    context: &Context<'_>,
    session: SessionId,
    call: &RaiseCall,
) -> Result<Value> {
    let task = context.store.raise(session, call.task_id, &call.limits).await?;
    Ok(Value::Object(task_fields::status(&task)))
}
