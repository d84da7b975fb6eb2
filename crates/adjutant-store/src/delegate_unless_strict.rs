use adjutant_agent::{SessionId, TaskId, TaskNumber};
use serde_json::Value;

use crate::batch::check_batch;
use crate::idempotency::{IdempotencyKey, KeyedAction};
use crate::json::to_json;
use crate::new_tasks::NewTasks;
use crate::{NewDelegation, Operator, Result, Spawned, Store};

/// A new task for an agent that was named.
#[derive(Debug, Clone, PartialEq)]
pub struct Delegated {
    pub spawned: Spawned,
    /// The longest that the task may run: the call's limit, the agent's or the operator's.
    pub timeout_s: Option<f64>,
}

impl Store {
    /// Delegates in one round trip, unless the inheritance policy of the agent is strict: one that
    /// turns missing skills or tool conflicts into errors. Then it does nothing and returns `None`,
    /// and the caller checks what the agent would inherit before it calls [`Store::delegate`]. The
    /// assignment may have any length.
    pub async fn delegate_unless_strict(
        &self,
        session: SessionId,
        new: &NewDelegation,
        operator: &Operator,
        key: Option<IdempotencyKey<'_>>,
    ) -> Result<Option<Delegated>> {
        if let Some(key) = key {
            key.check()?;
        }
        check_batch(&[&new.task])?;
        let rows = NewTasks::delegated(session, std::slice::from_ref(new), None)?;
        let operator = to_json(operator)?;
        let limits = self.limits.of_tasks().map(|(active, queued)| [active, queued]);
        let notices = self.notices_of(&[&new.task]);
        let created = self
            .call(async |connection| {
                // A task that an idempotency key finds is visible to this statement, a new one is
                // not, because it is created while the statement runs. Without the limit, the
                // planner expects a thousand rows and compiles the query (JIT). The condition
                // inside of the subquery keeps spawn_1 from running for a strict agent.
                sqlx::query!(
                    r#"with given as materialized (
                           select row($1::bigint[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::smallint[],
                               $7::jsonb[], null::integer[], null::text[], null::jsonb[])::new_tasks as tasks
                       ), resolved as materialized (
                           select given.tasks, (resolve_agents_1(given.tasks, $8)).configs[1] as config
                           from given
                       ), checked as materialized (
                           select
                               resolved.*,
                               config #>> '{inheritance, missing_skill_policy}' is not distinct from 'error'
                               or config #>> '{inheritance, tool_conflict_policy}' is not distinct from 'error' as is_strict
                           from resolved
                       )
                       select
                           d.id as "id!", d.number as "number!", d.state as "state!", d.queue_position,
                           (
                               coalesce((select t.config from task t where t.id = d.id), checked.config) ->> 'timeout_s'
                           )::double precision as timeout_s
                       from checked
                       cross join lateral (
                           select *
                           from spawn_1(
                               checked.tasks, $8, row(null::integer, null::uuid, null::uuid, null::text)::spawner,
                               row($9::text, $10::text, sha256($11))::request_key, $12, $13
                           )
                           where not checked.is_strict
                           limit 1
                       ) d"#,
                    &rows.sessions,
                    &rows.ids,
                    &rows.agents,
                    &rows.assignments,
                    &rows.pools,
                    &rows.priorities,
                    &rows.options as &[Option<Value>],
                    operator,
                    KeyedAction::Spawn.as_str(),
                    key.map(|key| key.key),
                    key.map(|key| key.body),
                    limits.as_ref().map(|limits| &limits[..]),
                    &notices.payloads,
                )
                .fetch_all(connection)
                .await
            })
            .await?;
        let Some(row) = created.into_iter().next() else { return Ok(None) };
        self.event_notifier.notify([session]);
        let spawned = Spawned {
            id: TaskId(row.id),
            number: TaskNumber(row.number),
            state: crate::status::known(&row.state)?,
            queue_position: row.queue_position,
        };
        Ok(Some(Delegated { spawned, timeout_s: row.timeout_s }))
    }
}
