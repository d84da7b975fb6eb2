use adjutant_agent::{ErrorCode, OnWorkerLoss, Refusal, SessionId, TaskNumber};
use serde::Deserialize;
use sqlx::types::Json;

use crate::{Patience, Progress, Result, Store};

/// A task as one reads it that leaves it where it is: how it stands, and all that it gave.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Reading {
    #[serde(flatten)]
    pub progress: Progress,
    #[serde(default)]
    pub result: Option<String>,
    pub summary: Option<String>,
    #[serde(default)]
    pub partial_result: Option<String>,
    /// The longest that it may run, in seconds.
    pub timeout_s: Option<f64>,
    pub on_worker_loss: OnWorkerLoss,
}

/// The tasks of a session that an orchestrator spawned, the one that changed last first, without their results.
#[derive(Debug, Clone, PartialEq)]
pub struct Readings {
    /// How many there are in all.
    pub count: i64,
    pub tasks: Vec<Reading>,
}

/// TaskNews that somebody waits for, over all of their looks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskNewsAwaited {
    numbers: Option<Vec<i32>>,
    /// What was active at the first look.
    active: Option<Vec<i32>>,
}

impl TaskNewsAwaited {
    /// Of these tasks; none: of all that an orchestrator spawned.
    pub fn of(tasks: Option<&[TaskNumber]>) -> Self {
        let numbers = |tasks: &[TaskNumber]| tasks.iter().map(|number| number.0).collect();
        Self { numbers: tasks.map(numbers), active: None }
    }

    /// Those that were active at the first look.
    pub fn active(&self) -> impl Iterator<Item = TaskNumber> {
        self.active.iter().flatten().copied().map(TaskNumber)
    }
}

/// What a look for news found.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskNews {
    /// There is something to tell, or nothing left to wait for.
    pub met: bool,
    /// Without their results, the first first; at most a hundred at a time.
    pub told: Vec<Reading>,
}

impl Store {
    /// A task, collected or not, with its outcome.
    pub async fn reading(&self, session: SessionId, number: TaskNumber) -> Result<Reading> {
        let found = self
            .call(async |connection| {
                sqlx::query_scalar!(
                    r#"select to_jsonb(r) as "reading!: Json<Reading>" from task_reading r where session = $1 and number = $2"#,
                    session.0,
                    number.0
                )
                .fetch_optional(connection)
                .await
            })
            .await?;
        match found {
            Some(reading) => Ok(reading.0),
            None => Err(Refusal::new(ErrorCode::TaskNotFound, format!("Task not found: {number}")).into()),
        }
    }

    /// The tasks that orchestrators of a session spawned, at most `limit` of them.
    pub async fn readings(&self, session: SessionId, limit: i64) -> Result<Readings> {
        let row = self
            .call(async |connection| {
                sqlx::query!(
                    r#"select
                        (select count(*) from task where session = $1 and parent is null) as "count!",
                        (
                            select coalesce(jsonb_agg(
                                to_jsonb(p) - '{result, partial_result}'::text[] order by p.last_activity_at desc, p.number
                            ), '[]')
                            from task_reading p
                            where p.session = $1 and p.id in (
                                select h.id
                                from task_history h
                                where h.session = $1 and h.parent is null
                                order by h.last_activity_at desc, h.number
                                limit $2
                            )
                        ) as "tasks!: Json<Vec<Reading>>""#,
                    session.0,
                    limit
                )
                .fetch_one(connection)
                .await
            })
            .await?;
        Ok(Readings { count: row.count, tasks: row.tasks.0 })
    }

    /// Looks for news that nobody has been told of. Those that are told become read: of any number that wait, one is told. Never
    /// waits itself.
    pub async fn look_for_news(
        &self,
        session: SessionId,
        awaited: &mut TaskNewsAwaited,
        patience: Patience,
    ) -> Result<TaskNews> {
        let row = self
            .call(async |connection| {
                sqlx::query!(
                    r#"select met as "met!", active, told as "told!: Json<Vec<Reading>>" from wake_1($1, $2, $3, $4)"#,
                    session.0,
                    awaited.numbers.as_deref() as Option<&[i32]>,
                    awaited.active.as_deref() as Option<&[i32]>,
                    patience == Patience::LastLook
                )
                .fetch_one(connection)
                .await
            })
            .await?;
        awaited.active = row.active;
        Ok(TaskNews { met: row.met, told: row.told.0 })
    }

    /// The orchestrator knows how this task ended: it is no news any more.
    pub async fn told_of(&self, session: SessionId, number: TaskNumber) -> Result<()> {
        self.call(async |connection| {
            sqlx::query_scalar!("select read_news_of_1($1, $2)", session.0, &[number.0])
                .fetch_one(connection)
                .await
        })
        .await?;
        Ok(())
    }
}
