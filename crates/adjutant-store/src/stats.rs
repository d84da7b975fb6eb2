use std::collections::BTreeMap;
use std::time::Duration;

use adjutant_agent::{FailureKind, TaskState};
use chrono::{DateTime, Utc};
use serde::Serialize;
use utoipa::ToSchema;

use crate::status::known;
use crate::{Result, Store};

/// Statistics of a tenant's tasks and queue. Except for the fleet's cap and workers, nothing
/// depends on other tenants.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Stats {
    /// Only what was spawned, used and ended at this time or later is counted (in whole minutes, or
    /// hours before the last two days); none counts everything.
    #[serde(serialize_with = "crate::timestamp::serialize_option")]
    pub since: Option<DateTime<Utc>>,
    #[serde(flatten)]
    pub total: Sums,
    /// Tasks by state; every state is listed. Unfinished ones are of any age.
    pub states: BTreeMap<&'static str, i64>,
    /// Failed tasks by kind of failure; every kind is listed.
    pub failures: BTreeMap<&'static str, i64>,
    pub agents: BTreeMap<String, Sums>,
    /// By the model that the tasks were spawned with.
    pub models: BTreeMap<String, Sums>,
    pub queue: QueueStats,
    pub slots: SlotStats,
    /// Live workers of the fleet.
    pub workers_alive: i64,
}

/// Sums over tasks, including those of deleted sessions: what was spent stays spent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, ToSchema)]
pub struct Sums {
    /// Spawned tasks.
    pub tasks: i64,
    pub completed: i64,
    pub failed: i64,
    /// Turns, tokens and costs are those of ended attempts, and of those that run now.
    pub turns: i64,
    pub input_tokens: i64,
    pub output_tokens: i64,
    pub cost_usd: f64,
    #[serde(skip)]
    cost_nanousd: i64,
}

/// The tenant's queued tasks, of any age.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, ToSchema)]
#[schema(as = Queue)]
pub struct QueueStats {
    pub queued: i64,
    /// Seconds since the oldest task was created, of those that may be claimed now and are among
    /// the first 1000 of their pool.
    pub oldest_s: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Slots)]
pub struct SlotStats {
    /// Slots that tasks of this tenant hold. One whose worker is lost holds its slot until another
    /// worker takes it over.
    pub used: i64,
    /// The fleet-wide cap.
    pub cap: i64,
}

/// The most rows that one transaction folds.
const FOLDED_AT_ONCE: i32 = 5000;

struct Backlog {
    queued: i64,
    running: i64,
    waiting: i64,
    held: i64,
    oldest_s: Option<f64>,
    cap: i64,
    workers_alive: i64,
}

struct Group {
    agent: String,
    model: String,
    /// `spawned`, `running`, or how attempts ended.
    outcome: String,
    /// Empty unless the task failed.
    failure: String,
    tasks: i64,
    turns: i64,
    input_tokens: i64,
    output_tokens: i64,
    cost_nanousd: i64,
}

impl Store {
    /// What a tenant has spawned and used, from rollups: the cost does not depend on the number of
    /// tasks.
    pub async fn stats(&self, tenant: &str, since: Option<DateTime<Utc>>) -> Result<Stats> {
        let groups = self
            .call(async |connection| {
                sqlx::query_as!(
                    Group,
                    r#"select agent as "agent!", model as "model!", outcome as "outcome!", failure as "failure!",
                        tasks as "tasks!", turns as "turns!",
                        input_tokens as "input_tokens!", output_tokens as "output_tokens!",
                        cost_nanousd as "cost_nanousd!"
                       from stats_1($1, $2)"#,
                    tenant,
                    since
                )
                .fetch_all(connection)
                .await
            })
            .await?;
        let backlog = self.backlog(tenant).await?;
        let mut stats = Stats {
            since,
            total: Sums::default(),
            states: TaskState::ALL.iter().map(|state| (state.as_str(), 0)).collect(),
            failures: FailureKind::ALL.iter().map(|failure| (failure.as_str(), 0)).collect(),
            agents: BTreeMap::new(),
            models: BTreeMap::new(),
            queue: QueueStats { queued: backlog.queued, oldest_s: backlog.oldest_s },
            slots: SlotStats { used: backlog.held, cap: backlog.cap },
            workers_alive: backlog.workers_alive,
        };
        for (state, tasks) in [
            (TaskState::Queued, backlog.queued),
            (TaskState::Running, backlog.running),
            (TaskState::Waiting, backlog.waiting),
        ] {
            stats.states.insert(state.as_str(), tasks);
        }
        for group in groups {
            stats.add(&group)?;
        }
        Ok(stats)
    }

    /// The tenant's unfinished tasks, the cap and the number of live workers.
    async fn backlog(&self, tenant: &str) -> Result<Backlog> {
        self.call(async |connection| {
            sqlx::query_as!(
                Backlog,
                r#"select
                    queued as "queued!", running as "running!", waiting as "waiting!", held as "held!", oldest_s,
                    (select count(*) from slot where open) as "cap!",
                    (select count(*) from living_worker) as "workers_alive!"
                   from backlog_1($1)"#,
                tenant
            )
            .fetch_one(connection)
            .await
        })
        .await
    }

    /// Adds what was counted since the last call to the rollups, in bounded batches. Safe to run
    /// from any process at any time.
    pub async fn fold_usage(&self) -> Result<()> {
        while self.fold_deltas().await? >= i64::from(FOLDED_AT_ONCE) {}
        Ok(())
    }

    /// Whether the first count that is not folded yet is older than this; `None` if there is none.
    pub async fn unfolded_usage(&self, age: Duration) -> Result<Option<bool>> {
        self.call(async |connection| {
            sqlx::query_scalar!(
                r#"select at < now() - make_interval(secs => $1) as "is_older!" from usage_delta limit 1"#,
                age.as_secs_f64()
            )
            .fetch_optional(connection)
            .await
        })
        .await
    }

    /// Folds minutes that are older than two days into their hours, in bounded batches.
    pub(crate) async fn fold_old_minutes(&self) -> Result<()> {
        while self.fold_minutes().await? >= i64::from(FOLDED_AT_ONCE) {}
        Ok(())
    }

    async fn fold_deltas(&self) -> Result<i64> {
        self.call(async |connection| {
            sqlx::query_scalar!(r#"select fold_usage_1($1) as "folded!""#, FOLDED_AT_ONCE)
                .fetch_one(connection)
                .await
        })
        .await
    }

    async fn fold_minutes(&self) -> Result<i64> {
        self.call(async |connection| {
            sqlx::query_scalar!(r#"select fold_minutes_1($1) as "folded!""#, FOLDED_AT_ONCE)
                .fetch_one(connection)
                .await
        })
        .await
    }
}

impl Stats {
    fn add(&mut self, group: &Group) -> Result<()> {
        self.total.add(group);
        self.models.entry(group.model.clone()).or_default().add(group);
        self.agents.entry(group.agent.clone()).or_default().add(group);
        if !group.failure.is_empty() {
            let failure: FailureKind = known(&group.failure)?;
            *self.failures.entry(failure.as_str()).or_default() += group.tasks;
        }
        if let Some(state) = group.ended() {
            *self.states.entry(state.as_str()).or_default() += group.tasks;
        }
        Ok(())
    }
}

impl Group {
    /// How these tasks ended, if they did. A lost attempt ends its task if it fails it.
    fn ended(&self) -> Option<TaskState> {
        match self.outcome.as_str() {
            "completed" => Some(TaskState::Completed),
            "failed" => Some(TaskState::Failed),
            "lost" if !self.failure.is_empty() => Some(TaskState::Failed),
            "cancelled" => Some(TaskState::Cancelled),
            _ => None,
        }
    }
}

impl Sums {
    fn add(&mut self, group: &Group) {
        match group.ended() {
            Some(TaskState::Completed) => self.completed += group.tasks,
            Some(TaskState::Failed) => self.failed += group.tasks,
            Some(_) => {}
            None if group.outcome == "spawned" => self.tasks += group.tasks,
            None => {}
        }
        self.turns += group.turns;
        self.input_tokens += group.input_tokens;
        self.output_tokens += group.output_tokens;
        self.cost_nanousd += group.cost_nanousd;
        self.cost_usd = usd(self.cost_nanousd);
    }
}

/// For display only: sums are computed from the exact nanodollars.
#[expect(clippy::cast_precision_loss, reason = "exact to nine decimals up to nine million dollars")]
pub(crate) fn usd(nanousd: i64) -> f64 {
    nanousd as f64 / 1e9
}
