use std::collections::BTreeSet;
use std::time::Duration;

use adjutant_agent::{OnWorkerLoss, Refusal, SessionId, TaskId, TaskNumber, TaskState, Webhook};
use serde::Serialize;
use serde_json::{Map, Value};
use sqlx::types::Json;
use uuid::Uuid;

use crate::batch::check_batch;
use crate::idempotency::{Keyed, KeyedAction};
use crate::text::{refuse_nul, refuse_nul_in};
use crate::worker_notifier::CommitNotices;
use crate::{IdempotencyKey, Lease, NotifyTarget, Quota, Result, Store};

/// A task to be made.
#[derive(Debug, Clone)]
pub struct NewTask {
    /// Of the caller's making, if it has to know whether a key found an older task.
    pub id: Option<TaskId>,
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
    pub context: TaskContext,
    /// Who is told how it ends, instead of whom its session tells.
    pub webhook: Option<Webhook>,
    /// Refuse it if the tasks of its dialect in this session have used as much already.
    pub quota: Option<Quota>,
}

/// What a task's calls of `shared_context` read and change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TaskContext {
    /// What its session has, or for a child what its parent has.
    #[default]
    Shared,
    /// A copy of that, taken in the spawn's transaction: nobody else sees what the task makes of it, the task sees nothing of what
    /// others write later, and it ends with the task and its children.
    Snapshot,
}

impl TaskContext {
    pub(crate) fn is_shared(self) -> bool {
        self == Self::Shared
    }
}

impl Default for NewTask {
    fn default() -> Self {
        Self {
            id: None,
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
            context: TaskContext::Shared,
            webhook: None,
            quota: None,
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
        self.spawn_as(session, tasks, Keyed { action: KeyedAction::Spawn, key }).await
    }

    /// Makes all of the tasks, or none, in answer to an action.
    pub(crate) async fn spawn_as(
        &self,
        session: SessionId,
        tasks: &[NewTask],
        keyed: Keyed<'_>,
    ) -> Result<Vec<Spawned>> {
        spawn(self, session, tasks, keyed, None).await
    }

    /// The notices of a transaction that spawns these tasks.
    pub(crate) fn notices_of(&self, tasks: &[NewTask]) -> CommitNotices {
        let delays = tasks.iter().any(|task| task.delay.is_some()).then_some(NotifyTarget::Delayed);
        let pools: BTreeSet<_> =
            tasks.iter().filter(|task| task.delay.is_none()).map(|task| &task.pool).collect();
        self.worker_notifier
            .for_commit(pools.into_iter().cloned().map(NotifyTarget::Pool).chain(delays))
    }
}

impl Lease {
    /// Makes children of the leased task, all or none. The session's limits never refuse them.
    pub async fn spawn(
        &self,
        children: &[NewTask],
        key: Option<IdempotencyKey<'_>>,
    ) -> Result<Vec<Spawned>> {
        let keyed = Keyed { action: KeyedAction::Spawn, key };
        spawn(&self.store, self.session, children, keyed, Some(self)).await
    }
}

async fn spawn(
    store: &Store,
    session: SessionId,
    tasks: &[NewTask],
    keyed: Keyed<'_>,
    parent: Option<&Lease>,
) -> Result<Vec<Spawned>> {
    if let Some(key) = keyed.key {
        if parent.is_some() { key.check_for_children()? } else { key.check()? }
    }
    check_batch(tasks)?;
    let rows = tasks.iter().map(Row::of).collect::<std::result::Result<Vec<_>, _>>()?;
    let notices = store.notices_of(tasks);
    let order = Order { session, tasks: Json(rows), keyed, notices };
    let made = match (parent, store.limits.of_tasks()) {
        (None, Some(most)) => order.place_within(store, most).await?,
        (Some(_), _) | (None, None) => order.place(store, parent).await?,
    };
    store.event_notifier.notify([session]);
    made.into_iter().map(Made::spawned).collect()
}

/// Tasks that can be made, as far as one can tell without the database.
struct Order<'a> {
    session: SessionId,
    tasks: Json<Vec<Row<'a>>>,
    keyed: Keyed<'a>,
    notices: CommitNotices,
}

impl Order<'_> {
    async fn place(&self, store: &Store, parent: Option<&Lease>) -> Result<Vec<Made>> {
        store
            .call(async |connection| {
                sqlx::query_as!(
                    Made,
                    r#"select id as "id!", number as "number!", state as "state!", queue_position
           from spawn_1($1, $2, $3, sha256($4), $5, $6, $7, $8, $9)"#,
                    self.session.0,
                    &self.tasks as _,
                    self.keyed.key.map(|key| key.key),
                    self.keyed.key.map(|key| key.body),
                    parent.map(|lease| lease.task.0),
                    parent.map(|lease| lease.id.0),
                    parent.map(|lease| lease.slot),
                    &self.notices.payloads,
                    self.keyed.action.as_str(),
                )
                .fetch_all(connection)
                .await
            })
            .await
    }

    /// Under limits of the session's tenant: for those that do not wait, and for all.
    async fn place_within(
        &self,
        store: &Store,
        (max_active, max_queued): (i64, i64),
    ) -> Result<Vec<Made>> {
        store
            .call(async |connection| {
                sqlx::query_as!(
                    Made,
                    r#"select id as "id!", number as "number!", state as "state!", queue_position
                   from spawn_within_1($1, $2, $3, $4, $5, sha256($6), $7, $8)"#,
                    max_active,
                    max_queued,
                    self.session.0,
                    &self.tasks as _,
                    self.keyed.key.map(|key| key.key),
                    self.keyed.key.map(|key| key.body),
                    &self.notices.payloads,
                    self.keyed.action.as_str(),
                )
                .fetch_all(connection)
                .await
            })
            .await
    }
}

/// What `spawn_1` answers.
pub(crate) struct Made {
    pub(crate) id: Uuid,
    pub(crate) number: i32,
    pub(crate) state: String,
    pub(crate) queue_position: Option<i32>,
}

impl Made {
    pub(crate) fn spawned(self) -> Result<Spawned> {
        Ok(Spawned {
            id: TaskId(self.id),
            number: TaskNumber(self.number),
            state: crate::status::known(&self.state)?,
            queue_position: self.queue_position,
        })
    }
}

/// A task as `spawn_1` reads it. What most tasks do not have is not said.
#[derive(Serialize)]
struct Row<'a> {
    id: Uuid,
    agent: &'a str,
    agent_version: i32,
    config: &'a Map<String, Value>,
    assignment: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<&'a str>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    metadata: &'a Map<String, Value>,
    pool: &'a str,
    priority: i16,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_s: Option<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    depends_on: Vec<i32>,
    queue: bool,
    on_worker_loss: OnWorkerLoss,
    max_failures: i16,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<&'a str>,
    /// It has an overlay of its own.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    snapshot: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    webhook: Option<&'a Webhook>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quota: Option<Quota>,
}

impl<'a> Row<'a> {
    fn of(task: &'a NewTask) -> std::result::Result<Self, Refusal> {
        refuse_nuls(task)?;
        let depends_on = task.depends_on.iter().map(|dependency| match dependency {
            Dependency::Task(number) => number.0,
            // `check_batch` has seen that it is below MAX_BATCH.
            Dependency::InBatch(place) => i32::try_from(*place).map_or(0, |place| -place - 1),
        });
        Ok(Self {
            id: task.id.unwrap_or_default().0,
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
            snapshot: !task.context.is_shared(),
            webhook: task.webhook.as_ref(),
            quota: task.quota,
        })
    }
}

fn refuse_nuls(task: &NewTask) -> std::result::Result<(), Refusal> {
    let texts = [
        ("agent", Some(&task.agent)),
        ("assignment", Some(&task.assignment)),
        ("label", task.label.as_ref()),
        ("pool", Some(&task.pool)),
        ("traceparent", task.traceparent.as_ref()),
    ];
    for (field, text) in texts {
        refuse_nul_in(field, text.map_or("", String::as_str))?;
    }
    for (field, values) in [("config", &task.config), ("metadata", &task.metadata)] {
        for (name, value) in values {
            refuse_nul_in(field, name)?;
            refuse_nul(field, value)?;
        }
    }
    task.webhook.as_ref().map_or(Ok(()), |webhook| refuse_nul("webhook", &to_json(webhook)?))
}

fn to_json(value: impl Serialize) -> std::result::Result<Value, Refusal> {
    serde_json::to_value(value).map_err(|error| Refusal::invalid("task", error))
}

pub(crate) fn to_row(task: &NewTask) -> std::result::Result<Value, Refusal> {
    to_json(Row::of(task)?)
}
