use std::collections::BTreeSet;
use std::time::Duration;

use adjutant_agent::{Grants, OnWorkerLoss, SessionId, TaskId, TaskNumber, TaskState, Webhook};
use serde_json::{Map, Value};

use crate::batch::check_batch;
use crate::idempotency::{Keyed, KeyedAction};
use crate::json::to_json;
use crate::new_tasks::{DEFAULT_MAX_FAILURES, NewTasks};
use crate::worker_notifier::CommitNotices;
use crate::{IdempotencyKey, Lease, NotifyTarget, Operator, Quota, Result, Store};

/// A task to create.
#[derive(Debug, Clone)]
pub struct NewTask {
    /// Set by a caller that has to know whether an idempotency key found an older task.
    pub id: Option<TaskId>,
    pub agent: String,
    pub agent_version: i32,
    /// The agent's configuration. The task keeps it when the agent changes.
    pub config: Map<String, Value>,
    pub assignment: String,
    pub label: Option<String>,
    pub metadata: Map<String, Value>,
    /// Empty: the agent's pool, or else for a child its parent's, or else `default`.
    pub pool: String,
    /// Higher is sooner.
    pub priority: i16,
    pub delay: Option<Duration>,
    pub depends_on: Vec<Dependency>,
    /// Wait outside the session's window instead of being refused.
    pub queue: bool,
    pub on_worker_loss: OnWorkerLoss,
    /// Workers that may be lost in a row without progress before the task fails.
    pub max_failures: i16,
    pub traceparent: Option<String>,
    pub context: TaskContext,
    /// Receives its end, in place of the session's webhook.
    pub webhook: Option<Webhook>,
    /// Refuse it if the tasks of its dialect have used up this quota in the session.
    pub quota: Option<Quota>,
}

/// The shared context that a task reads and writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TaskContext {
    /// That of its session, or for a child that of its parent.
    #[default]
    Shared,
    /// A copy of that, taken in the spawn's transaction. Only the task and its children see it, and
    /// it is deleted when the last of them ends.
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
            pool: String::new(),
            priority: 0,
            delay: None,
            depends_on: Vec::new(),
            queue: false,
            on_worker_loss: OnWorkerLoss::Resume,
            max_failures: DEFAULT_MAX_FAILURES,
            traceparent: None,
            context: TaskContext::Shared,
            webhook: None,
            quota: None,
        }
    }
}

/// A task that must complete first: an earlier one of the same spawner, or one of the same batch
/// by its place, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dependency {
    Task(TaskNumber),
    InBatch(usize),
}

/// A created task. It is durable when this is returned.
#[derive(Debug, Clone, PartialEq)]
pub struct Spawned {
    pub id: TaskId,
    pub number: TaskNumber,
    pub state: TaskState,
    /// The number of the tenant's tasks before it, while it is queued.
    pub queue_position: Option<i32>,
    /// The longest that it may run: the call's limit, the agent's or the operator's.
    pub timeout_s: Option<f64>,
}

impl Dependency {
    /// A task's number, or a negative place in the batch: -1 is its first task.
    pub(crate) fn to_sql(self) -> i32 {
        match self {
            Self::Task(number) => number.0,
            // `check_batch` has made sure that it is below MAX_BATCH.
            Self::InBatch(place) => i32::try_from(place).map_or(0, |place| -place - 1),
        }
    }
}

impl Store {
    /// Creates tasks that have their configurations, all or none.
    pub async fn spawn(
        &self,
        session: SessionId,
        tasks: &[NewTask],
        key: Option<IdempotencyKey<'_>>,
    ) -> Result<Vec<Spawned>> {
        let keyed = Keyed { action: KeyedAction::Spawn, key };
        let checked: Vec<&NewTask> = tasks.iter().collect();
        check_batch(&checked)?;
        let rows = NewTasks::configured(session, tasks)?;
        let by = By::caller(self);
        let spawn = Spawn { tasks: rows, operator: None, by, keyed, retried: None };
        spawn.call(self, &checked).await
    }

    /// Spawns a copy of a task, for a spawner with these grants.
    pub(crate) async fn spawn_retry(
        &self,
        session: SessionId,
        retry: &NewTask,
        key: Option<IdempotencyKey<'_>>,
        grants: Grants,
        retried: Retried,
    ) -> Result<Vec<Spawned>> {
        check_batch(&[retry])?;
        let rows = NewTasks::configured(session, std::slice::from_ref(retry))?;
        let keyed = Keyed { action: KeyedAction::Retry, key };
        let by = By::Orchestrator(grants);
        let spawn = Spawn { tasks: rows, operator: None, by, keyed, retried: Some(retried) };
        spawn.call(self, &[retry]).await
    }

    fn notices_of(&self, tasks: &[&NewTask]) -> CommitNotices {
        let delays = tasks.iter().any(|task| task.delay.is_some()).then_some(NotifyTarget::Delayed);
        let now = tasks.iter().filter(|task| task.delay.is_none());
        let pools: BTreeSet<_> = now.map(|task| notified_pool(&task.pool)).collect();
        self.worker_notifier.for_commit(pools.into_iter().map(NotifyTarget::Pool).chain(delays))
    }
}

/// The pool that is notified of a new task. If its agent or its parent chooses another pool, the
/// spawn itself notifies that one.
pub(crate) fn notified_pool(pool: &str) -> String {
    if pool.is_empty() { "default".to_owned() } else { pool.to_owned() }
}

impl Lease {
    /// Creates children of the leased task that have their configurations, all or none. The
    /// session's limits never refuse them.
    pub async fn spawn(
        &self,
        children: &[NewTask],
        key: Option<IdempotencyKey<'_>>,
    ) -> Result<Vec<Spawned>> {
        let keyed = Keyed { action: KeyedAction::Spawn, key };
        let checked: Vec<&NewTask> = children.iter().collect();
        check_batch(&checked)?;
        let rows = NewTasks::configured(self.session, children)?;
        let by = By::Task { lease: self, call: None };
        let spawn = Spawn { tasks: rows, operator: None, by, keyed, retried: None };
        spawn.call(&self.store, &checked).await
    }
}

/// Who spawns, and so which grants the tasks carry.
pub(crate) enum By<'a> {
    /// The session's orchestrator, with these grants.
    Orchestrator(Grants),
    /// A running task, whose children inherit its grants. The same tool call finds the children
    /// that it has.
    Task { lease: &'a Lease, call: Option<String> },
}

impl<'a> By<'a> {
    /// The caller that the store acts for.
    pub(crate) fn caller(store: &Store) -> Self {
        Self::Orchestrator(store.grants().clone())
    }

    fn is_task(&self) -> bool {
        matches!(self, Self::Task { .. })
    }

    fn lease(&self) -> Option<&'a Lease> {
        if let Self::Task { lease, .. } = self { Some(lease) } else { None }
    }

    fn call(&self) -> Option<&str> {
        if let Self::Task { call, .. } = self { call.as_deref() } else { None }
    }

    /// `None` is everything, or for a task what its row says.
    fn grants(&self) -> Result<Option<Value>> {
        match self {
            Self::Orchestrator(grants) if !grants.is_everything() => to_json(grants).map(Some),
            Self::Orchestrator(_) | Self::Task { .. } => Ok(None),
        }
    }
}

/// One call of `spawn_1`.
pub(crate) struct Spawn<'a> {
    pub(crate) tasks: NewTasks<'a>,
    /// Resolves the tasks' agents, unless the tasks have their configurations.
    pub(crate) operator: Option<&'a Operator>,
    pub(crate) by: By<'a>,
    pub(crate) keyed: Keyed<'a>,
    /// The task that this one repeats.
    pub(crate) retried: Option<Retried>,
}

/// A task that is retried.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Retried {
    pub(crate) task: TaskId,
    /// Fail if it was retried before.
    pub(crate) once: bool,
}

impl Spawn<'_> {
    /// `tasks` are the same tasks, for their notices.
    pub(crate) async fn call(&self, store: &Store, tasks: &[&NewTask]) -> Result<Vec<Spawned>> {
        let Self { tasks: rows, operator, by, keyed, retried } = self;
        if let Some(key) = keyed.key {
            if by.is_task() { key.check_for_children()? } else { key.check()? }
        }
        let operator = operator.map(to_json).transpose()?;
        let configs = rows.configs.as_ref();
        // The limits of a tenant never refuse children.
        let limits = if by.is_task() { None } else { store.limits.of_tasks() };
        let limits = limits.map(|(active, queued)| [active, queued]);
        let grants = by.grants()?;
        // Of all spawns only retries are audited. The statement's snapshot is older than the task,
        // so that a repeated request, which finds it, is not audited again.
        let once = retried.is_some_and(|retried| retried.once);
        let retried = retried.map(|retried| retried.task.0);
        let actor = if retried.is_some() { store.audited()? } else { None };
        let notices = store.notices_of(tasks);
        let created = store
            .call(async |connection| {
                sqlx::query!(
                    r#"select s.id as "id!", s.number as "number!", s.state as "state!", s.queue_position, s.timeout_s,
                        case when $22::jsonb is not null and not exists (select from task t where t.id = s.id) then audit_1(
                            $22, (select tenant from session where id = any($1)), 'task.retry', ($23::uuid)::text,
                            audited_task_1($23), jsonb_build_object('task', s.id, 'task_id', task_name(s.number))
                        ) end as audited,
                        case when $23::uuid is not null then record_retry_1($23, s.id, $24) end as recorded
                       from spawn_1(
                           row($1::bigint[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::smallint[],
                               $7::jsonb[], $8::integer[], $9::text[], $10::jsonb[])::new_tasks,
                           $11,
                           row($12::integer, $13::uuid, $14::uuid, $15::text)::spawner,
                           row($16::text, $17::text, sha256($18))::request_key,
                           $19,
                           $20,
                           $21
                       ) s"#,
                    &rows.sessions,
                    &rows.ids,
                    &rows.agents,
                    &rows.assignments,
                    &rows.pools,
                    &rows.priorities,
                    &rows.options as &[Option<Value>],
                    configs.map(|configs| &configs.agent_versions[..]),
                    configs.map(|configs| &configs.loss_rules[..]),
                    configs.map(|configs| &configs.configs[..]) as _,
                    operator,
                    by.lease().map(|lease| lease.slot),
                    by.lease().map(|lease| lease.task.0),
                    by.lease().map(|lease| lease.id.0),
                    by.call(),
                    keyed.action.as_str(),
                    keyed.key.map(|key| key.key),
                    keyed.key.map(|key| key.body),
                    limits.as_ref().map(|limits| &limits[..]),
                    &notices.payloads,
                    grants,
                    actor,
                    retried,
                    once,
                )
                .fetch_all(connection)
                .await
            })
            .await?;
        store.event_notifier.notify(rows.sessions.first().copied().map(SessionId));
        created
            .into_iter()
            .map(|row| {
                Ok(Spawned {
                    id: TaskId(row.id),
                    number: TaskNumber(row.number),
                    state: crate::status::known(&row.state)?,
                    queue_position: row.queue_position,
                    timeout_s: row.timeout_s,
                })
            })
            .collect()
    }
}
