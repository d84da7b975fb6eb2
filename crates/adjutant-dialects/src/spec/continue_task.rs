use adjutant_agent::SessionId;
use serde_json::Value;

use super::{ContinueCall, ParsedRequest, new_delegation, spawn, task_fields};
use crate::{Context, Result};

/// Spawns a task that starts from the stored conversation of one that has ended.
pub(super) async fn continue_task(
    context: &Context<'_>,
    session: SessionId,
    call: &ContinueCall,
    request: &ParsedRequest,
) -> Result<Value> {
    let webhook = call.options.webhook.iter();
    context.check_webhooks(session, webhook.map(|webhook| ("webhook".to_owned(), webhook))).await?;
    // No agent is named: the task keeps the agent of the one that it continues, and its
    // pool.
    let mut new = spawn::traced(new_delegation("", &call.task, &call.options), request);
    new.task.pool = call.options.pool.clone().unwrap_or_default();
    let operator = &context.policy.operator;
    let store = context.store;
    let spawned = store.continue_task(session, call.task_id, &new, operator, request.key()).await?;
    let agent = store.status(session, spawned.number).await?.agent;
    Ok(Value::Object(task_fields::spawned(&spawned, &agent, &call.options)))
}
