use adjutant_agent::{BatchCall, ItemDependency, SessionId, SpawnCall, TaskOptions};
use adjutant_store::{Dependency, NewDelegation, NewTask};
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
        let depends_on = call.depends_on.iter().copied().map(Dependency::Task).collect();
        let new = delegation(&call.options, request).of(&call.agent, &call.task, depends_on);
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
        let new = call.tasks.iter().map(|item| {
            let depends_on = item.depends_on.iter().map(|dependency| match dependency {
                ItemDependency::Task(number) => Dependency::Task(*number),
                ItemDependency::Item(place) => Dependency::InBatch(*place),
            });
            delegation(&item.options, request).of(&item.agent, &item.task, depends_on.collect())
        });
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

/// A delegation that has all but its agent and its assignment.
pub(super) struct Unassigned(NewDelegation);

pub(super) fn delegation(options: &TaskOptions, request: &Request) -> Unassigned {
    Unassigned(NewDelegation {
        task: NewTask {
            label: options.label.clone(),
            metadata: options.metadata.clone(),
            priority: options.priority,
            delay: options.delay,
            queue: options.queue,
            traceparent: request.traceparent.clone(),
            webhook: options.webhook.clone(),
            ..NewTask::default()
        },
        timeout_s: options.timeout_s,
        budget: options.budget,
        summary_prompt: options.summary_prompt.clone(),
        ..NewDelegation::default()
    })
}

impl Unassigned {
    pub(super) fn of(mut self, agent: &str, assignment: &str, depends_on: Vec<Dependency>) -> NewDelegation {
        self.0.task.agent = agent.to_owned();
        self.0.task.assignment = assignment.to_owned();
        self.0.task.depends_on = depends_on;
        self.0
    }
}
