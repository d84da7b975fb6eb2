use adjutant_agent::SessionId;
use serde_json::Value;

use super::render::put_outcome;
use super::{CollectCall, ParsedRequest, task_fields};
use crate::{Context, Result};

/// Hands the outcome over, once: the result of a completed task, or the error of another.
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
