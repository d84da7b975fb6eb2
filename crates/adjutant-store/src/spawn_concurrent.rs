//! Concurrent spawns of single tasks, for many sessions in one call: `spawn_concurrent_1`.

use std::collections::BTreeSet;

use adjutant_agent::{SessionId, TaskId, TaskNumber, TaskState};
use serde_json::Value;

use crate::json::to_json;
use crate::new_tasks::NewTasks;
use crate::spawn::notified_pool;
use crate::{NewDelegation, NewTask, NotifyTarget, Operator, Result, Spawned, Store};

/// A single task that can be created together with tasks of other sessions.
#[derive(Debug)]
pub(crate) struct ConcurrentSpawn {
    pub(crate) task: NewTasks<'static>,
    pub(crate) operator: Operator,
}

/// Whether [`Store::spawn_concurrent`] can create it. Everything else that a task has is in its
/// columns. Destructures without `..`, so that the compiler finds a forgotten field.
pub(crate) fn is_plain(new: &NewDelegation) -> bool {
    let NewDelegation {
        task,
        config: _,
        timeout_s: _,
        budget: _,
        on_budget: _,
        summary_prompt: _,
        equipment: _,
        any_length: _,
    } = new;
    let NewTask {
        id: _,
        agent: _,
        agent_version: _,
        config: _,
        assignment: _,
        label: _,
        metadata: _,
        pool: _,
        priority: _,
        delay,
        depends_on,
        queue: _,
        on_worker_loss: _,
        max_failures: _,
        traceparent: _,
        context,
        webhook: _,
        quota,
    } = task;
    delay.is_none() && depends_on.is_empty() && context.is_shared() && quota.is_none()
}

impl Store {
    /// Creates the tasks in one call. Tasks that it cannot create have no answer; they are spawned
    /// one by one, which also finds out why.
    pub(crate) async fn spawn_concurrent(
        self,
        spawns: Vec<ConcurrentSpawn>,
    ) -> Result<Vec<Option<Spawned>>> {
        let mut spawned: Vec<Option<Spawned>> = spawns.iter().map(|_| None).collect();
        let Some(first) = spawns.first() else { return Ok(spawned) };
        let operator = first.operator.clone();
        let mut places = Vec::new();
        let mut tasks = NewTasks::default();
        for (place, spawn) in spawns.into_iter().enumerate() {
            if spawn.operator == operator {
                places.push(place);
                tasks.append(spawn.task);
            }
        }
        let operator = to_json(&operator)?;
        let pools: BTreeSet<_> = tasks.pools.iter().map(|pool| notified_pool(pool)).collect();
        let notices = self.worker_notifier.for_commit(pools.into_iter().map(NotifyTarget::Pool));
        let created = self
            .call(async |connection| {
                sqlx::query!(
                    r#"select place as "place!", id as "id!", number as "number!", queue_position, timeout_s
                       from spawn_concurrent_1(
                           row($1::bigint[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::smallint[],
                               $7::jsonb[], null, null, null)::new_tasks,
                           $8, $9
                       )"#,
                    &tasks.sessions,
                    &tasks.ids,
                    &tasks.agents,
                    &tasks.assignments,
                    &tasks.pools,
                    &tasks.priorities,
                    &tasks.options as &[Option<Value>],
                    operator,
                    &notices.payloads,
                )
                .fetch_all(connection)
                .await
            })
            .await?;
        for task in created {
            let place = usize::try_from(task.place - 1).ok().and_then(|place| places.get(place));
            if let Some(answer) = place.and_then(|place| spawned.get_mut(*place)) {
                *answer = Some(Spawned {
                    id: TaskId(task.id),
                    number: TaskNumber(task.number),
                    state: TaskState::Queued,
                    queue_position: task.queue_position,
                    timeout_s: task.timeout_s,
                });
            }
        }
        self.event_notifier.notify(tasks.sessions.into_iter().map(SessionId));
        Ok(spawned)
    }
}
