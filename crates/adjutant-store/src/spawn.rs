use std::collections::BTreeSet;
use std::time::Duration;

use adjutant_agent::{OnWorkerLoss, Refusal, SessionId, TaskId, TaskNumber, TaskState};
use serde::Serialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::batch::check_batch;
use crate::text::refuse_nul;
use crate::{IdempotencyKey, Lease, Result, Store, Whom};

/// A task to be made.
#[derive(Debug, Clone)]
pub struct NewTask {
    pub agent: String,
    pub agent_version: i32,
    /// The agent's configuration; the task keeps it whatever becomes of the agent.
    pub config: Map<String, Value>,
    pub assignment: String,
    pub label: Option<String>,
    pub metadata: Map<String, Value>,
    pub pool: String,
    /// Higher is sooner.
    pub priority: i16,
    pub delay: Option<Duration>,
    pub depends_on: Vec<Dependency>,
    /// Accept to wait behind the session's window instead of being refused.
    pub queue: bool,
    pub on_worker_loss: OnWorkerLoss,
    /// Workers that may be lost in a row without progress before the task fails.
    pub max_failures: i16,
    pub traceparent: Option<String>,
}

impl Default for NewTask {
    fn default() -> Self {
        Self {
            agent: String::new(),
            agent_version: 1,
            config: Map::new(),
            assignment: String::new(),
            label: None,
            metadata: Map::new(),
            pool: "default".to_owned(),
            priority: 0,
            delay: None,
            depends_on: Vec::new(),
            queue: false,
            on_worker_loss: OnWorkerLoss::Resume,
            max_failures: 3,
            traceparent: None,
        }
    }
}

/// A task that must complete first: an earlier one of the same spawner, or one of the same batch by its place from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dependency {
    Task(TaskNumber),
    InBatch(usize),
}

/// A task that was made. It is durable when this is returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spawned {
    pub id: TaskId,
    pub number: TaskNumber,
    pub state: TaskState,
    /// How many of the tenant's tasks are before it, while it is queued.
    pub queue_position: Option<i32>,
}

impl Store {
    /// Makes all of the tasks, or none.
    pub async fn spawn(
        &self,
        session: SessionId,
        tasks: &[NewTask],
        key: Option<IdempotencyKey<'_>>,
    ) -> Result<Vec<Spawned>> {
        spawn(self, session, tasks, key, None).await
    }
}

impl Lease {
    /// Makes children of the leased task, all or none. The session's limits never refuse them.
    pub async fn spawn(&self, children: &[NewTask], key: Option<IdempotencyKey<'_>>) -> Result<Vec<Spawned>> {
        spawn(&self.store, self.session, children, key, Some(self)).await
    }
}

async fn spawn(
    store: &Store,
    session: SessionId,
    tasks: &[NewTask],
    key: Option<IdempotencyKey<'_>>,
    parent: Option<&Lease>,
) -> Result<Vec<Spawned>> {
    if let Some(key) = key {
        key.check()?;
    }
    check_batch(tasks)?;
    let rows = tasks.iter().map(to_row).collect::<std::result::Result<Vec<_>, _>>()?;
    let delays = tasks.iter().any(|task| task.delay.is_some()).then_some(Whom::Delayed);
    let pools: BTreeSet<_> =
        tasks.iter().filter(|task| task.delay.is_none()).map(|task| &task.pool).collect();
    let notices = store.notices.with_commit(pools.into_iter().cloned().map(Whom::Pool).chain(delays));
    let spawned = store
        .call(async |connection| {
            sqlx::query!(
                r#"select id as "id!", number as "number!", state as "state!", queue_position
           from spawn_1($1, $2, $3, sha256($4), $5, $6, $7, $8)"#,
                session.0,
                Value::Array(rows),
                key.map(|key| key.key),
                key.map(|key| key.body),
                parent.map(|lease| lease.task.0),
                parent.map(|lease| lease.id.0),
                parent.map(|lease| lease.slot),
                &notices,
            )
            .fetch_all(connection)
            .await
        })
        .await?;
    store.audience.happened([session]);
    spawned
        .into_iter()
        .map(|row| {
            Ok(Spawned {
                id: TaskId(row.id),
                number: TaskNumber(row.number),
                state: crate::status::known(&row.state)?,
                queue_position: row.queue_position,
            })
        })
        .collect()
}

/// A task as `spawn_1` reads it.
#[derive(Serialize)]
struct Row<'a> {
    id: Uuid,
    agent: &'a str,
    agent_version: i32,
    config: &'a Map<String, Value>,
    assignment: &'a str,
    label: Option<&'a str>,
    metadata: &'a Map<String, Value>,
    pool: &'a str,
    priority: i16,
    delay_s: Option<f64>,
    depends_on: Vec<i32>,
    queue: bool,
    on_worker_loss: OnWorkerLoss,
    max_failures: i16,
    traceparent: Option<&'a str>,
}

fn to_row(task: &NewTask) -> std::result::Result<Value, Refusal> {
    let depends_on = task.depends_on.iter().map(|dependency| match dependency {
        Dependency::Task(number) => number.0,
        // `check_batch` has seen that it is below MAX_BATCH.
        Dependency::InBatch(place) => i32::try_from(*place).map_or(0, |place| -place - 1),
    });
    let row = serde_json::to_value(Row {
        id: TaskId::new().0,
        agent: &task.agent,
        agent_version: task.agent_version,
        config: &task.config,
        assignment: &task.assignment,
        label: task.label.as_deref(),
        metadata: &task.metadata,
        pool: &task.pool,
        priority: task.priority,
        delay_s: task.delay.map(|delay| delay.as_secs_f64()).filter(|delay| *delay > 0.0),
        depends_on: depends_on.collect(),
        queue: task.queue,
        on_worker_loss: task.on_worker_loss,
        max_failures: task.max_failures,
        traceparent: task.traceparent.as_deref(),
    })
    .map_err(|error| Refusal::invalid("task", error))?;
    refuse_nul("", &row)?;
    Ok(row)
}
