use adjutant_agent::{BatchCall, SessionId, SpawnCall};
use adjutant_store::{Dependency, NewDelegation};
use serde_json::{Value, json};

use super::{Request, shown};
use crate::{Desk, Result};

impl Desk {
    /// Starts a task, and answers at once.
    pub(super) async fn spawn(
        &self,
        session: SessionId,
        call: &SpawnCall,
        request: &Request,
    ) -> Result<Value> {
        let webhook = call.options.webhook.iter();
        self.check_webhooks(session, webhook.map(|webhook| ("webhook".to_owned(), webhook))).await?;
        let mut new = traced(NewDelegation::of(&call.agent, &call.task, &call.options), request);
        new.task.depends_on = call.depends_on.iter().copied().map(Dependency::Task).collect();
        let spawned = self.store.delegate(session, &new, &self.policy.operator, request.key()).await?;
        Ok(Value::Object(shown::spawned(&spawned, &call.agent, &call.options)))
    }

    /// Starts all of the tasks, or none.
    pub(super) async fn batch(
        &self,
        session: SessionId,
        call: &BatchCall,
        request: &Request,
    ) -> Result<Value> {
        let webhooks = call.tasks.iter().enumerate().filter_map(|(place, item)| {
            Some((format!("tasks[{place}].webhook"), item.options.webhook.as_ref()?))
        });
        self.check_webhooks(session, webhooks).await?;
        let new = call.tasks.iter().map(|item| traced(item.into(), request));
        let new: Vec<NewDelegation> = new.collect();
        let spawned = self.store.delegate_all(session, &new, &self.policy.operator, request.key()).await?;
        let tasks = call.tasks.iter().zip(&spawned).map(|(item, spawned)| {
            let mut task = shown::spawned(spawned, &item.agent, &item.options);
            if let Some(name) = &item.name {
                task.insert("name".to_owned(), json!(name));
            }
            Value::Object(task)
        });
        Ok(json!({ "tasks": tasks.collect::<Vec<_>>() }))
    }
}

/// A delegation in the trace of the request that asks for it.
pub(super) fn traced(mut new: NewDelegation, request: &Request) -> NewDelegation {
    new.task.traceparent = request.traceparent.clone();
    new
}
