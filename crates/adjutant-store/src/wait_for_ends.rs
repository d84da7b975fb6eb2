//! A client waits for tasks to end by checking after every notification of its session. One check
//! is one call, and never blocks.

use adjutant_agent::{SessionId, TaskNumber, TaskView, WaitMode};
use sqlx::types::Json;

use crate::{Result, Store};

/// A wait for the end of tasks, over all of its checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndWait {
    numbers: Option<Vec<i32>>,
    mode: WaitMode,
    /// The tasks that were active at the first check, if none were named.
    active: Option<Vec<i32>>,
}

impl EndWait {
    /// For these tasks.
    pub fn of(tasks: &[TaskNumber], mode: WaitMode) -> Self {
        let mut numbers: Vec<i32> = tasks.iter().map(|number| number.0).collect();
        numbers.sort_unstable();
        numbers.dedup();
        Self { numbers: Some(numbers), mode, active: None }
    }

    /// For the session's active tasks and its unread notifications.
    pub fn of_session(mode: WaitMode) -> Self {
        Self { numbers: None, mode, active: None }
    }

    /// The tasks that were named, or those that were active at the first check.
    pub fn tasks(&self) -> Vec<TaskNumber> {
        let numbers = self.numbers.iter().chain(&self.active).next();
        numbers.into_iter().flatten().copied().map(TaskNumber).collect()
    }
}

/// A wait for unread notifications, over all of its checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotificationWait {
    numbers: Option<Vec<i32>>,
    /// The tasks that were active at the first check.
    active: Option<Vec<i32>>,
}

impl NotificationWait {
    /// Of these tasks; none: of all that orchestrators of the session spawned.
    pub fn of(tasks: Option<&[TaskNumber]>) -> Self {
        let numbers = |tasks: &[TaskNumber]| tasks.iter().map(|number| number.0).collect();
        Self { numbers: tasks.map(numbers), active: None }
    }

    /// The tasks that were active at the first check.
    pub fn active(&self) -> impl Iterator<Item = TaskNumber> {
        self.active.iter().flatten().copied().map(TaskNumber)
    }
}

/// Whether another check follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    Repeated,
    /// Returns the tasks that have ended even if the wait is not over.
    Last,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq)]
pub struct EndedTasks {
    /// There is nothing left to wait for.
    pub met: bool,
    /// In the order of their ends; at most a hundred unread notifications at a time.
    pub tasks: Vec<TaskView>,
}

impl Store {
    /// Checks whether tasks have ended. Notifications that are returned become read, so that one of
    /// several waiting clients gets each.
    pub async fn check_ends(
        &self,
        session: SessionId,
        wait: &mut EndWait,
        check: Check,
    ) -> Result<EndedTasks> {
        let row = self
            .call(async |connection| {
                sqlx::query!(
                    r#"select met as "met!", active, tasks as "tasks!: Json<Vec<TaskView>>"
                       from wait_1($1, $2, $3, $4, $5)"#,
                    session.0,
                    wait.numbers.as_deref() as Option<&[i32]>,
                    wait.active.as_deref() as Option<&[i32]>,
                    wait.mode == WaitMode::All,
                    check == Check::Last
                )
                .fetch_one(connection)
                .await
            })
            .await?;
        wait.active = row.active;
        Ok(EndedTasks { met: row.met, tasks: row.tasks.0 })
    }

    /// Checks for unread notifications. Those that are returned become read, so that one of several
    /// waiting clients gets each. The tasks have their details, but not their results.
    pub async fn check_notifications(
        &self,
        session: SessionId,
        wait: &mut NotificationWait,
        check: Check,
    ) -> Result<EndedTasks> {
        let row = self
            .call(async |connection| {
                sqlx::query!(
                    r#"select met as "met!", active, tasks as "tasks!: Json<Vec<TaskView>>"
                       from wait_for_notifications_1($1, $2, $3, $4)"#,
                    session.0,
                    wait.numbers.as_deref() as Option<&[i32]>,
                    wait.active.as_deref() as Option<&[i32]>,
                    check == Check::Last
                )
                .fetch_one(connection)
                .await
            })
            .await?;
        wait.active = row.active;
        Ok(EndedTasks { met: row.met, tasks: row.tasks.0 })
    }

    /// Marks the notifications of these tasks as read.
    pub async fn mark_read(&self, session: SessionId, tasks: &[TaskNumber]) -> Result<()> {
        let numbers: Vec<i32> = tasks.iter().map(|task| task.0).collect();
        self.call(async |connection| {
            sqlx::query!("select mark_read_1($1, $2)", session.0, &numbers)
                .fetch_one(connection)
                .await
        })
        .await
        .map(drop)
    }
}
