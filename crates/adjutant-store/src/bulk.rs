//! Cancels and retries of all tasks that match a filter. A call handles one batch and says where
//! the next one goes on. Repeating a call is harmless: what it did does not match any more, or is
//! left out.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use adjutant_agent::{ErrorCode, LeaseId, Refusal, SessionId, TaskId, TaskState};
use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::history::Found;
use crate::retry_and_continue::is_retried_before;
use crate::{Cursor, Error, NotifyTarget, Result, Store, TaskFilter};

/// The most matching tasks that a call looks at.
const BATCH: i64 = 200;
/// A transaction ends no further tree when it has so many tasks to end.
const MAX_ENDED: i32 = 1000;
/// A batch of retries, which are a transaction each, ends early after this time.
const RETRY_TIME: Duration = Duration::from_secs(2);
/// A dry run counts up to this number of tasks, a few thousand in a query.
const MAX_COUNTED: usize = 10_000;
const COUNT_BATCH: i64 = 2_000;

/// What is done with the tasks that match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BulkAction {
    Cancel,
    Retry,
}

/// Why a task that matches is left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    /// It was retried before.
    AlreadyRetried,
    /// It has changed since it was found: it has ended, or is in another state.
    Changed,
    /// It is a child of another task, and cannot be retried without its parent.
    Child,
    /// It was deleted with its session.
    Gone,
    NotEnded,
    /// The retry was refused for another reason, such as an agent that the key is not granted.
    Refused,
    SessionArchived,
    /// The session or the tenant would have too many unfinished tasks.
    TooManyTasks,
}

/// What a call did with the tasks that match, or in a dry run would do.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
#[schema(as = TaskBatch)]
pub struct BulkBatch {
    /// Nothing was changed.
    pub dry_run: bool,
    /// The tasks that match and were cancelled or retried.
    pub tasks: usize,
    /// The tasks that were cancelled because they are below those. A dry run does not count them.
    pub below: usize,
    /// The tasks that match and were left alone, by reason: `changed` (it has ended, or is in
    /// another state by now), `already_retried`, `child` (of a task that can be retried),
    /// `not_ended`, `session_archived`, `too_many_tasks` (of the session or the tenant), `gone`
    /// (deleted), `refused` (for another reason, such as an agent that the key is not granted). A
    /// dry run does not know `too_many_tasks` and `refused`.
    #[schema(value_type = BTreeMap<String, usize>)]
    pub skipped: BTreeMap<SkipReason, usize>,
    /// The cursor of the next batch; none if no more tasks match.
    pub next_cursor: Option<String>,
    /// How far back this batch and those before it have searched; none if everything was searched.
    #[serde(serialize_with = "crate::timestamp::serialize_option")]
    pub searched_until: Option<DateTime<Utc>>,
    /// All tasks that were cancelled.
    #[serde(skip)]
    pub ended: Vec<TaskId>,
}

impl BulkAction {
    /// The state that is searched for; refuses a filter that matches no task of the action.
    fn state(self, filter: &TaskFilter) -> std::result::Result<&'static str, Refusal> {
        use TaskState::{Cancelled, Completed, Failed, Queued, Running, Waiting};
        match (self, filter.state) {
            (Self::Cancel, _) if filter.failure.is_some() => {
                Err(Refusal::invalid("filter.failure", "only tasks that have ended have one"))
            }
            (Self::Cancel, None) => Ok("unfinished"),
            (Self::Cancel, Some(state @ (Queued | Running | Waiting))) => Ok(state.as_str()),
            (Self::Cancel, Some(Completed | Failed | Cancelled)) => Err(Refusal::invalid(
                "filter.state",
                "must be queued, running or waiting: other tasks have ended",
            )),
            (Self::Retry, None) if filter.failure.is_some() => Ok(Failed.as_str()),
            (Self::Retry, None) => Ok("unsuccessful"),
            (Self::Retry, Some(state @ (Failed | Cancelled))) => Ok(state.as_str()),
            (Self::Retry, Some(Queued | Running | Waiting | Completed)) => Err(Refusal::invalid(
                "filter.state",
                "must be failed or cancelled: only such tasks are retried",
            )),
        }
    }
}

impl BulkBatch {
    fn skip(&mut self, reason: SkipReason) {
        *self.skipped.entry(reason).or_default() += 1;
    }

    fn continue_at(&mut self, next: Option<Cursor>) {
        self.next_cursor = next.map(|cursor| cursor.to_string());
        self.searched_until = next.and_then(Cursor::time);
    }
}

impl Store {
    /// Cancels the next unfinished tasks of a tenant that match, each with everything below it, in
    /// one transaction. A task that is no longer in the state of the filter stays as it is.
    pub async fn cancel_matching(
        &self,
        filter: &TaskFilter,
        after: Option<&Cursor>,
    ) -> Result<BulkBatch> {
        let state = BulkAction::Cancel.state(filter)?;
        let Found { ids, next } =
            self.for_reads().search(filter, Some(state), after, BATCH).await?;
        let mut batch = BulkBatch::default();
        batch.continue_at(next);
        if ids.is_empty() {
            return Ok(batch);
        }
        let actor = self.audited()?;
        let row = self
            .call(async |connection| {
                sqlx::query!(
                    r#"select c.handled as "handled!", c.cancelled as "cancelled!", c.ended as "ended!", c.leases,
                        c.sessions as "sessions!", c.delivers as "delivers!",
                        case when c.cancelled > 0 then audit_1(
                            $5, $1, 'tasks.cancel', 'tasks', null, jsonb_build_object(
                                'filter', $6::jsonb, 'tasks', c.cancelled, 'below', cardinality(c.ended) - c.cancelled,
                                'newest', $2[1], 'oldest', $2[c.handled]
                            )
                        ) end as audited
                       from cancel_many_1($1, $2, $3, $4) c"#,
                    filter.tenant,
                    &ids,
                    state,
                    MAX_ENDED,
                    actor,
                    audited_filter(filter)
                )
                .fetch_one(connection)
                .await
            })
            .await?;
        self.worker_notifier
            .notify_lost(row.leases.unwrap_or_default().into_iter().map(LeaseId).collect());
        self.event_notifier.notify(row.sessions.into_iter().map(SessionId));
        if row.delivers {
            self.notify_workers(NotifyTarget::Delayed);
        }
        let (handled, cancelled) = (count(row.handled), count(row.cancelled));
        batch.ended = row.ended.into_iter().map(TaskId).collect();
        batch.tasks = cancelled;
        batch.below = batch.ended.len().saturating_sub(cancelled);
        if handled > cancelled {
            batch.skipped.insert(SkipReason::Changed, handled - cancelled);
        }
        if handled < ids.len() {
            batch.continue_at(
                handled.checked_sub(1).map(|last| Cursor::after(ids[last])).or(after.copied()),
            );
        }
        Ok(batch)
    }

    /// Retries the next failed and cancelled tasks of a tenant that match, each in a transaction of
    /// its own and once at most. The new tasks wait outside their session's window if that is full.
    pub async fn retry_matching(
        &self,
        filter: &TaskFilter,
        after: Option<&Cursor>,
    ) -> Result<BulkBatch> {
        let state = BulkAction::Retry.state(filter)?;
        let Found { ids, next } =
            self.for_reads().search(filter, Some(state), after, BATCH).await?;
        let not_retried = self.not_retried(&filter.tenant, &ids).await?;
        let (began, mut batch) = (Instant::now(), BulkBatch::default());
        batch.continue_at(next);
        for (place, id) in ids.iter().enumerate() {
            if let Some(reason) = not_retried.get(id) {
                batch.skip(*reason);
                continue;
            }
            if batch.tasks > 0 && began.elapsed() > RETRY_TIME {
                batch.continue_at(place.checked_sub(1).map(|last| Cursor::after(ids[last])));
                break;
            }
            match self.retry_task_once(&filter.tenant, TaskId(*id)).await {
                Ok(_) => batch.tasks += 1,
                Err(Error::Refused(refusal)) => batch.skip(reason_of(refusal.code)),
                Err(error) if is_retried_before(&error) => batch.skip(SkipReason::AlreadyRetried),
                Err(error) => return Err(error),
            }
        }
        if batch.tasks > 0 {
            self.audit_retries(filter, batch.tasks).await?;
        }
        Ok(batch)
    }

    /// How many tasks a cancel or a retry of all that match would take, as far as their rows tell:
    /// at least so many, if there is a cursor.
    pub async fn count_matching(
        &self,
        action: BulkAction,
        filter: &TaskFilter,
        after: Option<&Cursor>,
    ) -> Result<BulkBatch> {
        let state = action.state(filter)?;
        let store = self.for_reads();
        let (began, mut after) = (Instant::now(), after.copied());
        let mut batch = BulkBatch { dry_run: true, ..BulkBatch::default() };
        loop {
            let Found { ids, next } =
                store.search(filter, Some(state), after.as_ref(), COUNT_BATCH).await?;
            batch.tasks += ids.len();
            if action == BulkAction::Retry {
                for reason in store.not_retried(&filter.tenant, &ids).await?.into_values() {
                    batch.tasks -= 1;
                    batch.skip(reason);
                }
            }
            after = next;
            let seen = batch.tasks + batch.skipped.values().sum::<usize>();
            if next.is_none() || seen >= MAX_COUNTED || began.elapsed() > self.search_time {
                batch.continue_at(next);
                return Ok(batch);
            }
        }
    }

    /// Those of the tasks that cannot be retried with others.
    async fn not_retried(&self, tenant: &str, ids: &[Uuid]) -> Result<HashMap<Uuid, SkipReason>> {
        let rows = self
            .call(async |connection| {
                sqlx::query!(
                    r#"select task as "task!", reason as "reason!" from not_retried_1($1, $2)"#,
                    tenant,
                    ids
                )
                .fetch_all(connection)
                .await
            })
            .await?;
        let reason = |word: &str| match word {
            "already_retried" => SkipReason::AlreadyRetried,
            "child" => SkipReason::Child,
            "not_ended" => SkipReason::NotEnded,
            "session_archived" => SkipReason::SessionArchived,
            _ => SkipReason::Gone,
        };
        Ok(rows.into_iter().map(|row| (row.task, reason(&row.reason))).collect())
    }

    /// Each of the retries is audited, too, in its own transaction.
    async fn audit_retries(&self, filter: &TaskFilter, tasks: usize) -> Result<()> {
        let Some(actor) = self.audited()? else { return Ok(()) };
        let after = json!({"filter": audited_filter(filter), "tasks": tasks});
        self.call(async |connection| {
            sqlx::query!(
                "select audit_1($1, $2, 'tasks.retry', 'tasks', null, $3)",
                actor,
                filter.tenant,
                after
            )
            .fetch_one(connection)
            .await
        })
        .await?;
        Ok(())
    }
}

fn count(number: i32) -> usize {
    usize::try_from(number).unwrap_or_default()
}

/// The refusals that have a reason of their own.
const REFUSALS: [(ErrorCode, SkipReason); 5] = [
    (ErrorCode::MaxTasksExceeded, SkipReason::TooManyTasks),
    (ErrorCode::SessionArchived, SkipReason::SessionArchived),
    (ErrorCode::SessionNotFound, SkipReason::Gone),
    (ErrorCode::TaskNotFound, SkipReason::Gone),
    (ErrorCode::TaskNotReady, SkipReason::NotEnded),
];

fn reason_of(code: ErrorCode) -> SkipReason {
    let known = REFUSALS.iter().find(|(known, _)| *known == code);
    known.map_or(SkipReason::Refused, |(_, reason)| *reason)
}

/// The filter as the audit has it: the text that was searched for may be one of users.
fn audited_filter(filter: &TaskFilter) -> Value {
    let TaskFilter { tenant: _, state, failure, agent, session, model, since, until, q } = filter;
    let mut fields = json!({
        "state": state.map(TaskState::as_str), "failure": failure.map(|kind| kind.as_str()),
        "agent": agent, "session": session, "model": model, "since": since, "until": until,
        "q": q.as_ref().map(|_| "(a text)"),
    });
    if let Some(fields) = fields.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    fields
}
