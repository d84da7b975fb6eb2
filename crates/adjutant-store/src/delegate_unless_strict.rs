use adjutant_agent::SessionId;
use serde_json::Value;

use crate::batch::check_batch;
use crate::delegate::{json, row};
use crate::idempotency::{IdempotencyKey, KeyedAction};
use crate::spawn::Made;
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
        let tasks = std::slice::from_ref(&new.task);
        check_batch(tasks)?;
        let (rows, operator) = (Value::Array(vec![row(new)?]), json(operator)?);
        let (notices, most) = (self.notices_of(tasks), self.limits.of_tasks());
        let made = self
            .call(async |connection| {
                // A task that an idempotency key finds is visible to this statement, a new one is
                // not, because it is created while the statement runs. Without the limits, the
                // planner expects a thousand rows of each function and compiles the query (JIT).
                sqlx::query!(
                    r#"with agent as materialized (
                           select
                               s.id as session,
                               resolve_config_1(
                                   coalesce(a.definition, free_form_agent_1($3::jsonb, $2::jsonb -> 0 ->> 'agent')) -> 'spec',
                                   $2::jsonb -> 0, s.model, $3
                               ) as config
                           from session s
                           left join lateral (select * from agent_1(s.id, $2::jsonb -> 0 ->> 'agent') limit 1) a on true
                           where s.id = $1
                       )
                       select
                           d.id as "id!", d.number as "number!", d.state as "state!", d.queue_position,
                           (
                               coalesce((select t.config from task t where t.id = d.id), agent.config) ->> 'timeout_s'
                           )::double precision as timeout_s
                       from agent
                       cross join lateral (
                           select * from delegate_1(agent.session, $2, $3, $4, sha256($5), $6, $7, $8, $9) limit 1
                       ) d
                       where agent.config #>> '{inheritance, missing_skill_policy}' is distinct from 'error'
                           and agent.config #>> '{inheritance, tool_conflict_policy}' is distinct from 'error'"#,
                    session.0,
                    rows,
                    operator,
                    key.map(|key| key.key),
                    key.map(|key| key.body),
                    &notices.payloads,
                    most.map(|(active, _)| active),
                    most.map(|(_, queued)| queued),
                    KeyedAction::Spawn.as_str(),
                )
                .fetch_all(connection)
                .await
            })
            .await?;
        let Some(made) = made.into_iter().next() else { return Ok(None) };
        self.event_notifier.notify([session]);
        let timeout_s = made.timeout_s;
        let made = Made {
            id: made.id,
            number: made.number,
            state: made.state,
            queue_position: made.queue_position,
        };
        Ok(Some(Delegated { spawned: made.spawned()?, timeout_s }))
    }
}
