//! Tasks that come from other tasks. A retry repeats a task; a continuation starts from the stored
//! conversation of a task. Both are ordinary spawns; their configuration names the task that they
//! come from, and the worker reads it there. A task on a snapshot of the shared context gets a new
//! snapshot, because the old one was deleted when the task ended.

use adjutant_agent::{
    AgentConfig, EarlierTask, ErrorCode, Grants, OnWorkerLoss, Refusal, SessionId, TaskId,
    TaskNumber, Webhook,
};
use serde::Deserialize;
use serde_json::{Map, Value};
use sqlx::types::Json;

use crate::delegate::one;
use crate::idempotency::{Keyed, KeyedAction};
use crate::spawn::Retried;
use crate::status::known;
use crate::{
    Error, IdempotencyKey, NewDelegation, NewTask, Operator, Result, Spawned, Store, TaskContext,
};

const RETRY_OF: &str = "retry_of";
pub(crate) const CONTINUES: &str = "continues";

/// The task whose conversation a continuation starts from, and the grants of the continuation.
pub(crate) struct Continued {
    pub(crate) task: TaskId,
    pub(crate) grants: Grants,
}

/// The task that a retry or a continuation comes from, as it was spawned.
struct Origin {
    id: TaskId,
    session: SessionId,
    task: NewTask,
}

impl Store {
    /// Spawns a copy of a tenant's ended task, with the same assignment and configuration, but
    /// without its dependencies.
    pub async fn retry_task(
        &self,
        tenant: &str,
        task: TaskId,
        key: Option<IdempotencyKey<'_>>,
    ) -> Result<Spawned> {
        let mut origin = self.origin_of_retry(tenant, task).await?;
        self.spawn_copy(&mut origin, key, Retried { task, once: false }).await
    }

    /// As [`Store::retry_task`], but the copy waits outside the session's window if that is full;
    /// and the call fails for a task that was retried before (see [`is_retried_before`]).
    pub(crate) async fn retry_task_once(&self, tenant: &str, task: TaskId) -> Result<Spawned> {
        let mut origin = self.origin_of_retry(tenant, task).await?;
        origin.task.queue = true;
        self.spawn_copy(&mut origin, None, Retried { task, once: true }).await
    }

    async fn origin_of_retry(&self, tenant: &str, task: TaskId) -> Result<Origin> {
        let (session, number) = self.find_task(tenant, task).await?;
        self.origin(session, number, "retried").await
    }

    async fn spawn_copy(
        &self,
        origin: &mut Origin,
        key: Option<IdempotencyKey<'_>>,
        retried: Retried,
    ) -> Result<Spawned> {
        let grants = self.grants_after(origin)?;
        let copy = &mut origin.task;
        copy.config.insert(RETRY_OF.to_owned(), Value::String(origin.id.to_string()));
        one(self.spawn_retry(origin.session, copy, key, grants, retried).await?)
    }

    /// Spawns a task that starts from the conversation of an ended task and continues with a new
    /// assignment. If the call names an agent, the task has that agent's current configuration;
    /// otherwise it has the agent and configuration of the ended task.
    pub async fn continue_task(
        &self,
        session: SessionId,
        number: TaskNumber,
        new: &NewDelegation,
        operator: &Operator,
        key: Option<IdempotencyKey<'_>>,
    ) -> Result<Spawned> {
        let origin = self.origin(session, number, "continued").await?;
        let from = Continued { task: origin.id, grants: self.grants_after(&origin)? };
        let mut new = new.clone();
        new.task.context = origin.task.context;
        if new.task.pool.is_empty() {
            new.task.pool = origin.task.pool;
        }
        if new.task.agent.is_empty() {
            new.task.agent = origin.task.agent;
            new.task.agent_version = origin.task.agent_version;
            new.task.on_worker_loss = origin.task.on_worker_loss;
            new.config = Some(as_spawned(Value::Object(origin.task.config))?);
        }
        let keyed = Keyed { action: KeyedAction::Continue, key };
        self.delegate_continuation(session, &new, operator, keyed, from).await
    }

    /// The grants of a task that comes from another one: the caller's, and where the caller is not
    /// limited, those of the other. So a retry by an operator gives a task nothing that it did not
    /// have.
    fn grants_after(&self, origin: &Origin) -> Result<Grants> {
        let Some(carried) = origin.task.config.get("grants") else {
            return Ok(self.grants().clone());
        };
        let carried = Grants::deserialize(carried)
            .map_err(|error| Error::Unexpected(sqlx::Error::Decode(error.into())))?;
        Ok(self.grants().clone().or(carried))
    }

    /// The conversations of the tasks that a task with this configuration continues, oldest first.
    pub async fn earlier_tasks(&self, config: &Value) -> Result<Vec<EarlierTask>> {
        let Some(last) =
            config.get(CONTINUES).and_then(Value::as_str).and_then(|id| id.parse().ok())
        else {
            return Ok(Vec::new());
        };
        let rows = self.origins_of(TaskId(last)).await?;
        let mut earlier = Vec::with_capacity(rows.len());
        for (task, config, assignment) in rows {
            earlier.push(EarlierTask {
                agent: as_spawned(config)?,
                assignment,
                turns: self.turns(task).await?,
            });
        }
        Ok(earlier)
    }

    /// A task, the task that it continues, and so on; oldest first.
    async fn origins_of(&self, last: TaskId) -> Result<Vec<(TaskId, Value, String)>> {
        let rows = self
            .call(async |connection| {
                sqlx::query!(
                    r#"with recursive line as (
                           select t.id, t.config, t.assignment, 1 as back from task t where t.id = $1
                           union all
                           select t.id, t.config, t.assignment, line.back + 1
                           from line
                           join task t on t.id = config_id(line.config, 'continues')
                       )
                       select id as "id!", config as "config!", assignment as "assignment!" from line order by back desc"#,
                    last.0
                )
                .fetch_all(connection)
                .await
            })
            .await?;
        Ok(rows.into_iter().map(|row| (TaskId(row.id), row.config, row.assignment)).collect())
    }

    async fn origin(&self, session: SessionId, number: TaskNumber, verb: &str) -> Result<Origin> {
        let row = self
            .call(async |connection| {
                sqlx::query!(
                    r#"select t.id, t.agent, t.agent_version, t.config as "config: Json<Map<String, Value>>", t.assignment, t.label,
                        t.metadata as "metadata: Json<Map<String, Value>>", t.webhook as "webhook: Json<Webhook>", t.pool,
                        t.priority, t.on_worker_loss as "on_worker_loss!: String", t.max_failures,
                        t.parent is not null as "is_child!", t.finished_at is not null as "has_ended!",
                        t.context is not null as "has_overlay!"
                       from task t
                       join session s on s.id = t.session
                       where t.session = $1 and t.number = $2"#,
                    session.0,
                    number.0
                )
                .fetch_optional(connection)
                .await
            })
            .await?;
        let missing = || Refusal::new(ErrorCode::TaskNotFound, format!("Task not found: {number}"));
        let row = row.ok_or_else(missing)?;
        if row.is_child {
            let why = format_args!(
                "{number} is a child of another task and cannot be {verb} without its parent"
            );
            return Err(Refusal::invalid("task_id", why).into());
        }
        if !row.has_ended {
            let why = format!("Task {number} has not ended yet, and can be {verb} only then");
            return Err(Refusal::new(ErrorCode::TaskNotReady, why).into());
        }
        let on_worker_loss: OnWorkerLoss = known(&row.on_worker_loss)?;
        let task = NewTask {
            agent: row.agent,
            agent_version: row.agent_version,
            config: row.config.0,
            assignment: row.assignment,
            label: row.label,
            metadata: row.metadata.0,
            pool: row.pool,
            priority: row.priority,
            on_worker_loss,
            max_failures: row.max_failures,
            context: if row.has_overlay { TaskContext::Snapshot } else { TaskContext::Shared },
            webhook: row.webhook.map(|webhook| webhook.0),
            ..NewTask::default()
        };
        Ok(Origin { id: TaskId(row.id), session, task })
    }
}

/// Whether a retry failed because its task was retried before.
pub(crate) fn is_retried_before(error: &Error) -> bool {
    let Error::Unexpected(sqlx::Error::Database(answer)) = error else { return false };
    answer.constraint() == Some("retried_pkey")
}

fn as_spawned(config: Value) -> Result<AgentConfig> {
    serde_json::from_value(config)
        .map_err(|error| Error::Unexpected(sqlx::Error::Decode(error.into())))
}
