use adjutant_agent::{Depth, ErrorCode, Refusal, SessionId, TaskId, TaskNumber, Webhook, WorkerId};
use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;
use sqlx::types::Json;
use utoipa::ToSchema;

use crate::{BrokenCallRecord, DeliveryFilter, DeliveryRecord, Result, Store, TaskEntry};

/// A task with all of its stored details.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = Task)]
pub struct TaskRecord {
    #[serde(flatten)]
    pub entry: TaskEntry,
    pub root: TaskId,
    /// 1 for a task of an orchestrator, 2 for its children.
    #[schema(value_type = i32)]
    pub depth: Depth,
    #[schema(value_type = Object)]
    pub metadata: Value,
    /// The configuration that it was spawned with, without prompts and the texts of skills, which
    /// are shown only to their authors.
    #[schema(value_type = Object)]
    pub config: Value,
    pub timeout_s: Option<f64>,
    pub pool: String,
    pub priority: i16,
    #[serde(serialize_with = "crate::timestamp::serialize_option")]
    pub not_before: Option<DateTime<Utc>>,
    pub waiting_for: Option<String>,
    /// The tasks of its session that it depends on.
    pub depends_on: Vec<String>,
    /// The number of the tenant's tasks before it in the queue, while it is queued.
    pub queue_position: Option<i32>,
    pub assignment: String,
    pub result: Option<String>,
    pub summary: Option<String>,
    pub partial_result: Option<String>,
    pub traceparent: Option<String>,
    /// Its attempts, including the current one.
    pub attempts: Vec<AttemptRecord>,
    /// Its newest model calls without a stored answer; their use is part of the task's.
    pub broken_calls: Vec<BrokenCallRecord>,
    /// Its own webhook; without one, the session's is used.
    pub webhook: Option<Webhook>,
    /// The webhook deliveries of its end.
    pub deliveries: Vec<DeliveryRecord>,
}

/// One claim of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Attempt)]
pub struct AttemptRecord {
    pub attempt: i32,
    pub worker: WorkerId,
    /// None once the worker's row is deleted.
    pub worker_name: Option<String>,
    /// How it ended: a task state, `released` or `lost`; none while it runs.
    pub outcome: Option<String>,
    /// The number of model answers that it stored.
    pub turns: i32,
    #[serde(serialize_with = "crate::timestamp::serialize")]
    pub claimed_at: DateTime<Utc>,
    #[serde(serialize_with = "crate::timestamp::serialize_option")]
    pub ended_at: Option<DateTime<Utc>>,
}

impl Store {
    /// The session and number of a tenant's task. Another tenant's task is reported as not found.
    pub async fn find_task(&self, tenant: &str, task: TaskId) -> Result<(SessionId, TaskNumber)> {
        let found = self
            .call(async |connection| {
                sqlx::query!(
                    "select t.session, t.number
                     from task t
                     join session s on s.id = t.session
                     where t.id = $1 and s.tenant = $2",
                    task.0,
                    tenant
                )
                .fetch_optional(connection)
                .await
            })
            .await?;
        let found = found.ok_or_else(|| not_found(task))?;
        Ok((SessionId(found.session), TaskNumber(found.number)))
    }

    /// A tenant's task with all details. Another tenant's task is reported as not found.
    pub async fn task(&self, tenant: &str, task: TaskId) -> Result<TaskRecord> {
        let row = self
            .call(async |connection| {
                sqlx::query!(
                    r#"select
                        to_jsonb(e) || jsonb_build_object('why', case
                            when h.finished_at is null and (
                                h.lease_expires_at is null or may_be_lost_1(h.lease_expires_at) or e.retrying is not null
                            )
                            then (
                                select jsonb_build_object('code', y.code, 'text', y.text, 'until', y.until) from why_1(h.id) y
                            )
                        end) as "entry!: Json<TaskEntry>",
                        h.root as "root!", h.depth as "depth!", h.metadata as "metadata!",
                        t.config - '{system_prompt, retry_of, continues, parent, skills}'::text[] as "config!", h.timeout_s,
                        h.pool as "pool!", h.priority as "priority!", h.not_before, h.waiting_for,
                        t.webhook as "webhook: Json<Webhook>",
                        h.assignment as "assignment!", h.result, h.summary, h.partial_result, h.traceparent,
                        array(
                            select task_name(d.number)
                            from awaited a
                            join task d on d.id = a.on_task
                            where a.task = t.id and a.kind = 'dependency'
                            order by d.number
                        ) as "depends_on!",
                        (select p.place from queue_positions_1(t.session, array[t.id]) p) as queue_position
                       from task_history h
                       join task t on t.id = h.id
                       join task_entry e on e.id = h.id
                       where h.id = $1 and h.tenant = $2"#,
                    task.0,
                    tenant
                )
                .fetch_optional(connection)
                .await
            })
            .await?;
        let row = row.ok_or_else(|| not_found(task))?;
        let attempts = self.attempts_of(task).await?;
        let broken_calls = self.broken_calls_of(task).await?;
        let filter = DeliveryFilter {
            tenant: tenant.to_owned(),
            task: Some(task),
            ..DeliveryFilter::default()
        };
        let deliveries = self.deliveries(&filter, 10).await?;
        Ok(TaskRecord {
            entry: row.entry.0,
            root: TaskId(row.root),
            depth: Depth(row.depth),
            metadata: row.metadata,
            config: row.config,
            timeout_s: row.timeout_s,
            pool: row.pool,
            priority: row.priority,
            not_before: row.not_before,
            waiting_for: row.waiting_for,
            depends_on: row.depends_on,
            queue_position: row.queue_position,
            assignment: row.assignment,
            result: row.result,
            summary: row.summary,
            partial_result: row.partial_result,
            traceparent: row.traceparent,
            attempts,
            broken_calls,
            webhook: row.webhook.map(|webhook| webhook.0),
            deliveries,
        })
    }

    async fn attempts_of(&self, task: TaskId) -> Result<Vec<AttemptRecord>> {
        let rows = self
            .call(async |connection| {
                sqlx::query!(
                    r#"select
                        a.attempt as "attempt!", a.worker as "worker!", w.name as "name?", a.outcome, a.turns as "turns!",
                        a.claimed_at as "claimed_at!", a.ended_at
                       from (
                           select attempt, worker, outcome::text, turns, claimed_at, ended_at from attempt where task = $1
                           union all
                           select attempt, worker, null, answers - answers_at_claim, claimed_at, null
                           from slot
                           where task = $1
                       ) a
                       left join worker w on w.id = a.worker
                       order by a.attempt"#,
                    task.0
                )
                .fetch_all(connection)
                .await
            })
            .await?;
        let record = rows.into_iter().map(|row| AttemptRecord {
            attempt: row.attempt,
            worker: WorkerId(row.worker),
            worker_name: row.name,
            outcome: row.outcome,
            turns: row.turns,
            claimed_at: row.claimed_at,
            ended_at: row.ended_at,
        });
        Ok(record.collect())
    }
}

pub(crate) fn not_found(task: TaskId) -> Refusal {
    Refusal::new(ErrorCode::TaskNotFound, format!("Task not found: {task}"))
}
