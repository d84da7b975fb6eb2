use adjutant_agent::SessionId;
use serde_json::Value;

use super::render::put_outcome;
use super::{CollectCall, ParsedRequest, task_fields};
use crate::{Context, Result};

/// Returns the outcome of a task, once: its result, or its error.
pub(super) async fn collect(
    context: &Context<'_>,
    session: SessionId,
    call: &CollectCall,
    request: &ParsedRequest,
) -> Result<Value> {
    let collected = context.store.collect(session, call.task_id, request.key()).await?;
    let mut answer = task_fields::task(&collected.task);
    put_outcome(&mut answer, &collected.outcome);
    Ok(Value::Object(answer))
}
