use adjutant_agent::{SessionId, TaskNumber, WaitMode};
use sqlx::types::Json;

use crate::{Progress, Result, Store};

/// What an orchestrator waits for, over all of its looks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndsAwaited {
    numbers: Option<Vec<i32>>,
    mode: WaitMode,
    /// What was active at the first look, if no tasks were named.
    active: Option<Vec<i32>>,
}

impl EndsAwaited {
    /// The ends of these tasks.
    pub fn of(tasks: &[TaskNumber], mode: WaitMode) -> Self {
        let mut numbers: Vec<i32> = tasks.iter().map(|number| number.0).collect();
        numbers.sort_unstable();
        numbers.dedup();
        Self { numbers: Some(numbers), mode, active: None }
    }

    /// The ends of the session's active tasks, and those that nobody has been told of.
    pub fn of_session(mode: WaitMode) -> Self {
        Self { numbers: None, mode, active: None }
    }

    /// The tasks that it is for: those that were named, or those that were active at the first look.
    pub fn tasks(&self) -> Vec<TaskNumber> {
        self.numbers
            .iter()
            .chain(&self.active)
            .next()
            .into_iter()
            .flatten()
            .copied()
            .map(TaskNumber)
            .collect()
    }
}

/// Whether there will be another look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    LookAgain,
    /// What has ended is told even if it is not all that was waited for.
    LastLook,
}

/// What a look found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ends {
    /// There is nothing left to wait for.
    pub met: bool,
    /// Those that have ended, the first first; of a session's news at most a hundred at a time.
    pub tasks: Vec<Progress>,
}

impl Store {
    /// Looks whether what is waited for has happened. News of a session that are told become read: of any number that wait,
    /// one is told. Never waits itself.
    pub async fn look_for_ends(
        &self,
        session: SessionId,
        awaited: &mut EndsAwaited,
        patience: Patience,
    ) -> Result<Ends> {
        let row = self
            .call(async |connection| {
                sqlx::query!(
                    r#"select met as "met!", active, told as "told!: Json<Vec<Progress>>"
                       from wait_1($1, $2, $3, $4, $5)"#,
                    session.0,
                    awaited.numbers.as_deref() as Option<&[i32]>,
                    awaited.active.as_deref() as Option<&[i32]>,
                    awaited.mode == WaitMode::All,
                    patience == Patience::LastLook
                )
                .fetch_one(connection)
                .await
            })
            .await?;
        awaited.active = row.active;
        Ok(Ends { met: row.met, tasks: row.told.0 })
    }

    /// Marks the news of these tasks as read, as somebody was told of them otherwise.
    pub async fn mark_read(&self, session: SessionId, tasks: &[TaskNumber]) -> Result<()> {
        let numbers: Vec<i32> = tasks.iter().map(|task| task.0).collect();
        self.call(async |connection| {
            sqlx::query!("select read_of_1($1, $2)", session.0, &numbers).fetch_one(connection).await
        })
        .await
        .map(drop)
    }
}
