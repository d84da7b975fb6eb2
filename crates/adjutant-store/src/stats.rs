use std::collections::BTreeMap;

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
    /// Only tasks created at this time or later are counted; none counts all.
    #[serde(serialize_with = "crate::moment::serialize_if_any")]
    pub since: Option<DateTime<Utc>>,
    #[serde(flatten)]
    pub total: Sums,
    /// Tasks by state; every state is listed.
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

/// Sums over tasks, including unfinished ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, ToSchema)]
pub struct Sums {
    pub tasks: i64,
    pub completed: i64,
    pub failed: i64,
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
    /// Seconds since the oldest of them was created.
    pub oldest_s: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Slots)]
pub struct SlotStats {
    /// Slots that run tasks of this tenant.
    pub used: i64,
    /// The fleet-wide cap.
    pub cap: i64,
}

struct Group {
    agent: String,
    model: Option<String>,
    state: String,
    failure: Option<String>,
    tasks: i64,
    turns: i64,
    input_tokens: i64,
    output_tokens: i64,
    cost_nanousd: i64,
}

impl Store {
    /// Counts a tenant's tasks. It scans all tasks created since then, so prefer a short time.
    pub async fn stats(&self, tenant: &str, since: Option<DateTime<Utc>>) -> Result<Stats> {
        let groups = self
            .call(async |connection| {
                sqlx::query_as!(
                    Group,
                    r#"select agent as "agent!", model, state as "state!", failure, tasks as "tasks!", turns as "turns!",
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
        let (queue, slots, workers_alive) = self.queue_and_slots(tenant).await?;
        let mut stats = Stats {
            since,
            total: Sums::default(),
            states: TaskState::ALL.iter().map(|state| (state.as_str(), 0)).collect(),
            failures: FailureKind::ALL.iter().map(|failure| (failure.as_str(), 0)).collect(),
            agents: BTreeMap::new(),
            models: BTreeMap::new(),
            queue,
            slots,
            workers_alive,
        };
        for group in groups {
            stats.add(group)?;
        }
        Ok(stats)
    }

    /// The tenant's queue, the slots and the number of live workers.
    async fn queue_and_slots(&self, tenant: &str) -> Result<(QueueStats, SlotStats, i64)> {
        let row = self
            .call(async |connection| {
                sqlx::query!(
                    r#"select
                        queued.count as "queued!", queued.oldest_s::double precision as oldest_s,
                        (select count(*) from slot x join session s on s.id = x.session where s.tenant = $1) as "used!",
                        (select count(*) from slot where open) as "cap!",
                        (select count(*) from living_worker) as "workers_alive!"
                       from (
                           select count(*) as count, extract(epoch from now() - min(t.created_at)) as oldest_s
                           from task t
                           join session s on s.id = t.session
                           where s.tenant = $1 and t.state = 'queued' and t.finished_at is null
                               and not exists (select from slot x where x.task = t.id)
                       ) queued"#,
                    tenant
                )
                .fetch_one(connection)
                .await
            })
            .await?;
        let queue = QueueStats { queued: row.queued, oldest_s: row.oldest_s };
        Ok((queue, SlotStats { used: row.used, cap: row.cap }, row.workers_alive))
    }
}

impl Stats {
    fn add(&mut self, group: Group) -> Result<()> {
        let state: TaskState = known(&group.state)?;
        *self.states.entry(state.as_str()).or_default() += group.tasks;
        if let Some(failure) = group.failure.as_deref().map(known::<FailureKind>).transpose()? {
            *self.failures.entry(failure.as_str()).or_default() += group.tasks;
        }
        self.total.add(state, &group);
        self.models.entry(group.model.clone().unwrap_or_default()).or_default().add(state, &group);
        self.agents.entry(group.agent.clone()).or_default().add(state, &group);
        Ok(())
    }
}

impl Sums {
    fn add(&mut self, state: TaskState, group: &Group) {
        self.tasks += group.tasks;
        match state {
            TaskState::Completed => self.completed += group.tasks,
            TaskState::Failed => self.failed += group.tasks,
            TaskState::Queued | TaskState::Running | TaskState::Waiting | TaskState::Cancelled => {}
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
