use adjutant_agent::{SUBAGENT, SessionId, SubagentCall, TaskNumber, TaskState, WaitCall};
use adjutant_store::{Ends, EndsAwaited, Patience};
use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use super::shown;
use crate::{Desk, Result, ToolCall};

/// A call that waits, if it is one.
pub(crate) fn as_wait(call: &ToolCall) -> Option<WaitCall> {
    match SubagentCall::parse(&call.arguments) {
        Ok(SubagentCall::Wait(wait)) if call.tool == SUBAGENT => Some(wait),
        Ok(_) | Err(_) => None,
    }
}

/// How a wait begins.
pub(crate) enum Begun {
    /// There is nothing left to wait for.
    Over(Value),
    /// It is for these.
    For(Vec<TaskNumber>),
}

/// What becomes of the news of the tasks that a look tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum News {
    Stay,
    /// So that an old result never answers a new wait.
    BecomeRead,
}

/// What somebody finds who comes again and again instead of waiting.
pub(crate) struct Look {
    /// There is nothing left to wait for.
    pub(crate) met: bool,
    /// How those stand that have ended.
    pub(crate) ended: Vec<TaskState>,
    /// How the first of all stands.
    pub(crate) first: TaskState,
    pub(crate) updated: DateTime<Utc>,
    /// What `wait` answers.
    pub(crate) answer: Value,
}

impl Desk {
    /// Waits until tasks have ended, or for as long as it may; answers with those that have.
    pub(super) async fn wait(&self, session: SessionId, call: &WaitCall) -> Result<Value> {
        let mut awaited = awaited(call);
        let mut vigil = self.watch_for(session, call.timeout);
        loop {
            let patience = vigil.patience();
            let ends = self.store.look_for_ends(session, &mut awaited, patience).await?;
            if ends.met || patience == Patience::LastLook {
                return Ok(waited(&ends));
            }
            vigil.rest().await;
        }
    }

    /// The first look of somebody who comes again.
    pub(crate) async fn begin_wait(&self, session: SessionId, call: &WaitCall) -> Result<Begun> {
        let mut awaited = awaited(call);
        let ends = self.store.look_for_ends(session, &mut awaited, Patience::LookAgain).await?;
        Ok(if ends.met { Begun::Over(waited(&ends)) } else { Begun::For(awaited.tasks()) })
    }

    /// How tasks stand that are waited for, and one of them in particular.
    pub(crate) async fn look(
        &self,
        session: SessionId,
        mut awaited: EndsAwaited,
        one: TaskNumber,
        news: News,
    ) -> Result<Look> {
        let ends = self.store.look_for_ends(session, &mut awaited, Patience::LookAgain).await?;
        if ends.met && news == News::BecomeRead {
            let told: Vec<TaskNumber> = ends.tasks.iter().map(|task| task.status.number).collect();
            self.store.mark_read(session, &told).await?;
        }
        let first = self.store.progress(session, one).await?.status;
        let latest = ends.tasks.iter().filter_map(|task| task.status.finished_at).max();
        Ok(Look {
            met: ends.met,
            ended: ends.tasks.iter().map(|task| task.status.state).collect(),
            first: first.state,
            updated: latest.unwrap_or(first.last_activity_at),
            answer: waited(&ends),
        })
    }
}

fn awaited(call: &WaitCall) -> EndsAwaited {
    match &call.task_ids {
        Some(tasks) => EndsAwaited::of(tasks, call.mode),
        None => EndsAwaited::of_session(call.mode),
    }
}

fn waited(ends: &Ends) -> Value {
    let tasks: Vec<Value> = ends.tasks.iter().map(|task| Value::Object(shown::progress(task))).collect();
    json!({ "tasks": tasks, "timed_out": !ends.met })
}
