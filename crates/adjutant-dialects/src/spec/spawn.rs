use adjutant_agent::SessionId;
use adjutant_store::{Dependency, NewDelegation};
use serde_json::{Value, json};

use super::{BatchCall, ParsedRequest, SpawnCall, new_delegation, task_fields};
use crate::{Context, Result};

/// Spawns a task, and answers at once.
pub(super) async fn spawn(
    context: &Context<'_>,
    session: SessionId,
    call: &SpawnCall,
    request: &ParsedRequest,
) -> Result<Value> {
    let webhook = call.options.webhook.iter();
    context.check_webhooks(session, webhook.map(|webhook| ("webhook".to_owned(), webhook))).await?;
    let mut new = traced(new_delegation(&call.agent, &call.task, &call.options), request);
    new.task.depends_on = call.depends_on.iter().copied().map(Dependency::Task).collect();
    let operator = &context.policy.operator;
    let spawned = context.store.delegate(session, &new, operator, request.key()).await?;
    Ok(Value::Object(task_fields::spawned(&spawned, &call.agent, &call.options)))
}

/// Spawns all of the tasks, or none.
pub(super) async fn batch(
    context: &Context<'_>,
    session: SessionId,
    call: &BatchCall,
    request: &ParsedRequest,
) -> Result<Value> {
    let webhooks = call.tasks.iter().enumerate().filter_map(|(place, item)| {
        Some((format!("tasks[{place}].webhook"), item.options.webhook.as_ref()?))
    });
    context.check_webhooks(session, webhooks).await?;
    let new = call.tasks.iter().map(|item| traced(item.into(), request));
    let new: Vec<NewDelegation> = new.collect();
    let operator = &context.policy.operator;
    let spawned = context.store.delegate_all(session, &new, operator, request.key()).await?;
    let tasks = call.tasks.iter().zip(&spawned).map(|(item, spawned)| {
        let mut task = task_fields::spawned(spawned, &item.agent, &item.options);
        if let Some(name) = &item.name {
            task.insert("name".to_owned(), json!(name));
        }
        Value::Object(task)
    });
    Ok(json!({ "tasks": tasks.collect::<Vec<_>>() }))
}

/// The delegation with the trace of its request.
pub(super) fn traced(mut new: NewDelegation, request: &ParsedRequest) -> NewDelegation {
    new.task.traceparent = request.traceparent.clone();
    new
}
