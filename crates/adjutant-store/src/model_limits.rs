use std::time::Duration;

use adjutant_agent::{TaskId, WorkerId};

use crate::batch::check_name;
use crate::text::refuse_nul_in;
use crate::{Result, Store};

/// How long a granted call may be used, from when it was requested. `model_usage` counts a grant
/// for this time longer than a minute.
pub const GRANT_VALIDITY: Duration = Duration::from_secs(2);

/// The limits of a model, which hold over all workers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ModelLimits {
    /// In any 60 seconds.
    pub requests_per_minute: Option<u32>,
    /// In any 60 seconds, by estimate until a call has ended.
    pub tokens_per_minute: Option<u32>,
    /// The most calls at once.
    pub max_concurrency: Option<u32>,
}

impl ModelLimits {
    /// Whether nothing limits the calls.
    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }
}

/// What one worker wants to call, and what it reports of its calls.
#[derive(Debug)]
pub struct ModelReservation<'a> {
    pub model: &'a str,
    pub worker: WorkerId,
    /// Calls of a worker that dies count as under way for this time.
    pub lease: Duration,
    pub limits: ModelLimits,
    /// The tasks that want to call.
    pub wanted: &'a [WantedCall],
    /// More calls, for tasks that will want to call within the next seconds.
    pub spare: Grant,
    /// Calls that are under way or granted and not yet used.
    pub held: i64,
    pub changes: &'a [UsageChange],
    /// How long the calls took that ended since the last report, on average.
    pub call_time: Option<Duration>,
    pub remaining: Remaining,
}

/// One call that a task wants to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WantedCall {
    pub task: TaskId,
    /// The estimate of prompt and answer. An estimate above the limit counts as the limit.
    pub tokens: i64,
    /// The task has had a call before, so it comes before tasks that have not.
    pub has_begun: bool,
}

/// A number of calls and their tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Grant {
    pub requests: i64,
    pub tokens: i64,
}

/// A correction of what was granted in one second of the database's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsageChange {
    pub second: i64,
    pub requests: i64,
    pub tokens: i64,
}

/// What the provider still allows, by its headers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Remaining {
    pub requests: Option<RemainingQuota>,
    pub tokens: Option<RemainingQuota>,
}

/// One of the provider's limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemainingQuota {
    pub left: i64,
    pub resets_in: Duration,
}

/// The answer to a [`ModelReservation`].
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reserved {
    /// The second in which the calls were granted, for [`UsageChange`].
    pub second: i64,
    pub spare: Grant,
    pub tasks: Vec<ReservedCall>,
}

/// The answer for one task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReservedCall {
    pub task: TaskId,
    /// The tokens that are reserved.
    pub tokens: i64,
    /// When to ask again; none if the call is granted.
    pub wait: Option<Duration>,
}

impl Store {
    /// Reserves calls under the limits of a model. Tasks that have to wait keep their place until
    /// they ask again.
    pub async fn reserve_model_calls(&self, wanted: &ModelReservation<'_>) -> Result<Reserved> {
        refuse_nul_in("model", wanted.model)?;
        check_name("model", wanted.model)?;
        let limits = wanted.limits;
        let limits = [limits.requests_per_minute, limits.tokens_per_minute, limits.max_concurrency]
            .map(|limit| limit.map(i64::from));
        let quotas = [wanted.remaining.requests, wanted.remaining.tokens];
        let left = quotas.map(|quota| quota.map(|quota| quota.left));
        let resets = quotas.map(|quota| quota.map(|quota| quota.resets_in.as_secs_f64()));
        let seconds: Vec<i64> = wanted.changes.iter().map(|change| change.second).collect();
        let requests: Vec<i64> = wanted.changes.iter().map(|change| change.requests).collect();
        let tokens: Vec<i64> = wanted.changes.iter().map(|change| change.tokens).collect();
        let tasks: Vec<_> = wanted.wanted.iter().map(|call| call.task.0).collect();
        let estimates: Vec<i64> = wanted.wanted.iter().map(|call| call.tokens).collect();
        let begun: Vec<bool> = wanted.wanted.iter().map(|call| call.has_begun).collect();
        let rows = self
            .call(async |connection| {
                sqlx::query!(
                    r#"select task, wait_ms, second as "second!", requests as "requests!", tokens as "tokens!"
                       from reserve_model_calls_1(
                           $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16
                       )"#,
                    wanted.model,
                    wanted.worker.0,
                    wanted.lease.as_secs_f64(),
                    &limits as &[Option<i64>],
                    wanted.held,
                    &seconds,
                    &requests,
                    &tokens,
                    wanted.call_time.map(|time| time.as_secs_f64() * 1000.0),
                    &left as &[Option<i64>],
                    &resets as &[Option<f64>],
                    &tasks,
                    &estimates,
                    &begun,
                    wanted.spare.requests,
                    wanted.spare.tokens
                )
                .fetch_all(connection)
                .await
            })
            .await?;
        let mut reserved = Reserved::default();
        for row in rows {
            reserved.second = row.second;
            match row.task {
                Some(task) => {
                    let wait = u64::try_from(row.wait_ms.unwrap_or_default()).unwrap_or_default();
                    let wait = (wait > 0).then(|| Duration::from_millis(wait));
                    reserved.tasks.push(ReservedCall {
                        task: TaskId(task),
                        tokens: row.tokens,
                        wait,
                    });
                }
                None => reserved.spare = Grant { requests: row.requests, tokens: row.tokens },
            }
        }
        Ok(reserved)
    }

    /// Deletes what is left of tasks that waited for a call and did not come back, and of models
    /// that are called no more.
    pub(crate) async fn delete_stale_model_rows(&self) -> Result<()> {
        sqlx::query!(
            "delete from model_waiter w
             where w.due_at < now() - interval '1 hour'
                 or not exists (select from task t where t.id = w.task and t.finished_at is null)"
        )
        .execute(&self.pool)
        .await?;
        sqlx::query!(
            "delete from model_usage where second < extract(epoch from now() - interval '1 hour')"
        )
        .execute(&self.pool)
        .await?;
        sqlx::query!("delete from model_permit where expires_at < now() - interval '1 hour'")
            .execute(&self.pool)
            .await?;
        Ok(())
    }
}
