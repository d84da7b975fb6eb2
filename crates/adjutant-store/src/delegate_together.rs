//! Spawns of many orchestrators in one call: see `migrations/0014_delegate.sql`.

use std::collections::BTreeSet;

use adjutant_agent::{Budget, SessionId, TaskId, TaskNumber, TaskState};
use serde::Serialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::batch::check_batch;
use crate::delegate::{check_task, json};
use crate::text::{refuse_nul, refuse_nul_in};
use crate::{NewDelegation, NewTask, NotifyTarget, Operator, Result, Spawned, Store};

impl Store {
    /// One call for all of them. What is not plain after all is left.
    pub(crate) async fn delegate_together(self, asked: Vec<Plain>) -> Result<Vec<Option<Spawned>>> {
        let mut spawned: Vec<Option<Spawned>> = asked.iter().map(|_| None).collect();
        let Some(first) = asked.first() else { return Ok(spawned) };
        let operator = first.operator.clone();
        let mut places = Vec::new();
        let mut columns = Columns::default();
        for (place, plain) in asked.into_iter().enumerate() {
            if plain.operator == operator {
                places.push(place);
                columns.push(plain);
            }
        }
        let operator = json(&operator)?;
        let pools: BTreeSet<&String> = columns.pools.iter().collect();
        let notices =
            self.worker_notifier.for_commit(pools.into_iter().cloned().map(NotifyTarget::Pool));
        let made = self
            .call(async |connection| {
                sqlx::query!(
                    r#"select place as "place!", id as "id!", number as "number!", queue_position
                       from delegate_concurrent_1($1, $2, $3, $4, $5, $6, $7, $8, $9)"#,
                    &columns.sessions,
                    &columns.ids,
                    &columns.agents,
                    &columns.assignments,
                    &columns.pools,
                    &columns.priorities,
                    &columns.options as &[Option<Value>],
                    operator,
                    &notices.payloads,
                )
                .fetch_all(connection)
                .await
            })
            .await?;
        for made in made {
            let place = usize::try_from(made.place - 1).ok().and_then(|place| places.get(place));
            if let Some(answer) = place.and_then(|place| spawned.get_mut(*place)) {
                *answer = Some(Spawned {
                    id: TaskId(made.id),
                    number: TaskNumber(made.number),
                    state: TaskState::Queued,
                    queue_position: made.queue_position,
                });
            }
        }
        self.event_notifier.notify(columns.sessions.into_iter().map(SessionId));
        Ok(spawned)
    }
}

/// A task that can be made beside those of other sessions.
#[derive(Debug)]
pub(crate) struct Plain {
    session: SessionId,
    agent: String,
    assignment: String,
    pool: String,
    priority: i16,
    options: Option<Value>,
    operator: Operator,
}

impl Plain {
    pub(crate) fn of(session: SessionId, new: &NewDelegation, operator: &Operator) -> Result<Self> {
        let task = &new.task;
        check_task(&task.assignment)?;
        check_batch(std::slice::from_ref(task))?;
        refuse_nul_in("task", &task.assignment)?;
        refuse_nul_in("agent", &task.agent)?;
        Ok(Self {
            session,
            agent: task.agent.clone(),
            assignment: task.assignment.clone(),
            pool: task.pool.clone(),
            priority: task.priority,
            options: Options::of(new)?,
            operator: operator.clone(),
        })
    }
}

/// What most tasks do not have, as `delegate_concurrent_1` reads it.
#[derive(Serialize)]
struct Options<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<&'a str>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    metadata: &'a Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_failures: Option<i16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary_prompt: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    budget: Option<Budget>,
}

impl Options<'_> {
    /// None: the task has none of them.
    fn of(new: &NewDelegation) -> Result<Option<Value>> {
        let task = &new.task;
        let options = json(&Options {
            label: task.label.as_deref(),
            metadata: &task.metadata,
            max_failures: Some(task.max_failures)
                .filter(|most| *most != NewTask::default().max_failures),
            traceparent: task.traceparent.as_deref(),
            summary_prompt: new.summary_prompt.as_deref(),
            timeout_s: new.timeout_s,
            budget: Some(new.budget).filter(|budget| *budget != Budget::default()),
        })?;
        refuse_nul("", &options)?;
        Ok(Some(options)
            .filter(|options| options.as_object().is_some_and(|fields| !fields.is_empty())))
    }
}

/// Plain tasks, a column each.
#[derive(Default)]
struct Columns {
    sessions: Vec<i64>,
    ids: Vec<Uuid>,
    agents: Vec<String>,
    assignments: Vec<String>,
    pools: Vec<String>,
    priorities: Vec<i16>,
    options: Vec<Option<Value>>,
}

impl Columns {
    fn push(&mut self, plain: Plain) {
        self.sessions.push(plain.session.0);
        self.ids.push(TaskId::new().0);
        self.agents.push(plain.agent);
        self.assignments.push(plain.assignment);
        self.pools.push(plain.pool);
        self.priorities.push(plain.priority);
        self.options.push(plain.options);
    }
}
