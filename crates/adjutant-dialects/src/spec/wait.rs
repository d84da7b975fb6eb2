use adjutant_agent::{SessionId, TaskNumber, TaskState, TaskView};
use adjutant_store::{Check, EndWait, EndedTasks, Error};
use chrono::{DateTime, Utc};
use futures::future::join_all;
use serde_json::{Value, json};

use super::{WaitCall, task_fields};
use crate::{Context, Result};

/// The most tasks that an answer of a wait lists as unfinished.
const MAX_UNFINISHED: usize = 10;

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
    /// The first task.
    pub first: TaskView,
    pub updated: DateTime<Utc>,
    /// The answer of `wait`.
    pub answer: Value,
}

/// Waits until tasks have ended, or until the timeout; answers with those that have. The queries
/// are boxed: thousands of clients wait at a time, and a future has room for its largest state.
pub(super) async fn wait(
    context: &Context<'_>,
    session: SessionId,
    call: &WaitCall,
) -> Result<Value> {
    let mut awaited = awaited(call);
    let mut wait_loop = context.wait_loop(session, call.timeout);
    loop {
        let check = wait_loop.check();
        let ends = Box::pin(context.store.check_ends(session, &mut awaited, check)).await?;
        if ends.met {
            return Ok(waited(&ends));
        } else if check == Check::Last {
            let unfinished = Box::pin(unfinished(context, session, &awaited, &ends)).await?;
            let mut answer = waited(&ends);
            if !unfinished.is_empty() {
                answer["unfinished"] = Value::Array(unfinished);
            }
            return Ok(answer);
        }
        wait_loop.rest().await;
    }
}

/// The awaited tasks that have not ended, as in `status`: why they wait. At most ten, which share a
/// round trip; a task that ended or was collected a moment ago is left out.
async fn unfinished(
    context: &Context<'_>,
    session: SessionId,
    awaited: &EndWait,
    ends: &EndedTasks,
) -> Result<Vec<Value>> {
    let ended: Vec<TaskNumber> = ends.tasks.iter().map(|task| task.number).collect();
    let open = awaited.tasks().into_iter().filter(|task| !ended.contains(task));
    let read = open.take(MAX_UNFINISHED).map(|task| context.store.status(session, task));
    let mut shown = Vec::new();
    for task in join_all(read).await {
        match task {
            Ok(task) if !task.state.is_terminal() => {
                shown.push(Value::Object(task_fields::status(&task)));
            }
            Ok(_) | Err(Error::Refused(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(shown)
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
        updated: latest.unwrap_or(first.last_activity_at),
        first,
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
