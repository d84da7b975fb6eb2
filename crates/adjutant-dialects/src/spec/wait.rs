use adjutant_agent::{SessionId, TaskNumber, TaskState};
use adjutant_store::{Check, EndWait, EndedTasks};
use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use super::{WaitCall, task_fields};
use crate::{Context, Result};

/// The start of a wait by a client that polls.
pub enum StartedWait {
    /// There is nothing left to wait for.
    Answered(Value),
    /// The tasks to wait for.
    For(Vec<TaskNumber>),
}

/// What a poll does to the notifications of the tasks in its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notifications {
    Keep,
    /// Marks them as read, so that an old result never answers a new wait.
    MarkRead,
}

/// The state of a wait whose client polls.
pub struct PolledWait {
    /// There is nothing left to wait for.
    pub met: bool,
    /// The states of the tasks that have ended.
    pub ended: Vec<TaskState>,
    /// The state of the first task.
    pub first: TaskState,
    pub updated: DateTime<Utc>,
    /// The answer of `wait`.
    pub answer: Value,
}

/// Waits until tasks have ended, or until the timeout; answers with those that have.
pub(super) async fn wait(
    context: &Context<'_>,
    session: SessionId,
    call: &WaitCall,
) -> Result<Value> {
    let mut awaited = awaited(call);
    let mut wait_loop = context.wait_loop(session, call.timeout);
    loop {
        let check = wait_loop.check();
        let ends = context.store.check_ends(session, &mut awaited, check).await?;
        if ends.met || check == Check::Last {
            return Ok(waited(&ends));
        }
        wait_loop.rest().await;
    }
}

/// The first query for a client that polls.
pub async fn start_wait(
    context: &Context<'_>,
    session: SessionId,
    call: &WaitCall,
) -> Result<StartedWait> {
    let mut awaited = awaited(call);
    let ends = context.store.check_ends(session, &mut awaited, Check::Repeated).await?;
    Ok(if ends.met {
        StartedWait::Answered(waited(&ends))
    } else {
        StartedWait::For(awaited.tasks())
    })
}

/// The state of tasks that a client polls, and of one of them in particular.
pub async fn poll_wait(
    context: &Context<'_>,
    session: SessionId,
    mut awaited: EndWait,
    one: TaskNumber,
    notifications: Notifications,
) -> Result<PolledWait> {
    let store = context.store;
    let ends = store.check_ends(session, &mut awaited, Check::Repeated).await?;
    if ends.met && notifications == Notifications::MarkRead {
        let read: Vec<TaskNumber> = ends.tasks.iter().map(|task| task.number).collect();
        store.mark_read(session, &read).await?;
    }
    let first = store.status(session, one).await?;
    let latest = ends.tasks.iter().filter_map(|task| task.finished_at).max();
    Ok(PolledWait {
        met: ends.met,
        ended: ends.tasks.iter().map(|task| task.state).collect(),
        first: first.state,
        updated: latest.unwrap_or(first.last_activity_at),
        answer: waited(&ends),
    })
}

fn awaited(call: &WaitCall) -> EndWait {
    match &call.task_ids {
        Some(tasks) => EndWait::of(tasks, call.mode),
        None => EndWait::of_session(call.mode),
    }
}

fn waited(ends: &EndedTasks) -> Value {
    let tasks: Vec<Value> =
        ends.tasks.iter().map(|task| Value::Object(task_fields::status(task))).collect();
    json!({ "tasks": tasks, "timed_out": !ends.met })
}
