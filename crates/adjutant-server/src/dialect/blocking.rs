//! Calls that wait for the task that they make.

use adjutant_agent::dialects::xzatoma::Quota;
use adjutant_agent::dialects::{Answer, EndedTask};
use adjutant_agent::{AgentSpec, ErrorCode, Outcome, Refusal, Spent, TaskId, TaskNumber, TaskState};
use adjutant_store::{NewTask, Patience, TaskRecord};
use chrono::{DateTime, Utc};
use serde_json::{Map, Value};

use super::begin::Seat;
use super::{Begun, Dialect};
use crate::key::Key;
use crate::{Desk, Error, Result, ToolCall};

/// A task of a dialect's that names no agent of ours.
pub(crate) struct Unnamed {
    /// What stands where a task has its agent.
    pub(crate) agent: &'static str,
    pub(crate) spec: AgentSpec,
    pub(crate) assignment: String,
    pub(crate) label: Option<String>,
    pub(crate) metadata: Map<String, Value>,
}

/// The task that a call waits for.
pub(crate) struct Made {
    task: TaskNumber,
    /// The call has made it; otherwise its key has found it.
    pub(crate) is_new: bool,
}

impl Made {
    pub(crate) fn begun(self) -> Begun {
        Begun::Waits(self.task)
    }
}

/// What somebody finds who comes again and again instead of waiting.
pub(crate) struct Look {
    pub(crate) state: TaskState,
    pub(crate) updated: DateTime<Utc>,
    /// Once it has ended.
    pub(crate) answer: Option<Answer>,
}

impl Desk {
    /// Makes a task that its caller waits for. It waits for room in its session: who waits anyway is not refused. The
    /// same key finds the same task.
    pub(crate) async fn begin_unnamed(
        &self,
        seat: &Seat<'_>,
        call: &ToolCall,
        dialect: Dialect,
        new: Unnamed,
    ) -> Result<Made> {
        let key = Key::of(call, dialect)?;
        let id = TaskId::new();
        let task = NewTask {
            id: Some(id),
            agent: new.agent.to_owned(),
            config: self.policy.operator.config_of(new.spec)?,
            assignment: new.assignment,
            label: new.label,
            metadata: new.metadata,
            queue: true,
            quota: self.quota_of(dialect),
            traceparent: call.traceparent(),
            ..NewTask::default()
        };
        let spawned = self.store.spawn(seat.id, &[task], key.as_ref().map(Key::as_ref)).await?;
        let first = spawned.first().ok_or_else(|| Error::bug(&"a spawn of one made none"))?;
        Ok(Made { task: first.number, is_new: first.id == id })
    }

    /// What all tasks of a dialect in one session may use together.
    fn quota_of(&self, dialect: Dialect) -> Option<Quota> {
        match dialect {
            Dialect::Xzatoma => self.policy.dialects.xzatoma.quota.if_any(),
            Dialect::Spec | Dialect::Caliban | Dialect::Ecs | Dialect::Weakincentives => None,
        }
    }

    /// Goes on to wait for a task that there is.
    pub(crate) async fn begin_again(&self, seat: &Seat<'_>, task: TaskNumber) -> Result<Begun> {
        self.store.progress(seat.id, task).await?;
        Ok(Begun::Waits(task))
    }

    /// Waits until a task has ended, collected or not, for as long as a call may take, and shows it. Nothing is marked as read
    /// or collected by that.
    pub(crate) async fn wait_and_show(
        &self,
        seat: &Seat<'_>,
        dialect: Dialect,
        task: TaskNumber,
    ) -> Result<Answer> {
        let mut vigil = self.watch_for(seat.id, self.policy.dialects.longest_wait);
        loop {
            let patience = vigil.patience();
            let progress = self.store.progress(seat.id, task).await.map_err(|error| gone(task, error))?;
            if progress.status.state.is_terminal() {
                return self.show_ended(seat, dialect, &progress.status).await;
            }
            if patience == Patience::LastLook {
                return self.show_what_goes_on(seat, dialect, &progress).await;
            }
            vigil.rest().await;
        }
    }

    /// How a task stands that somebody comes again for.
    pub(crate) async fn look_at(&self, seat: &Seat<'_>, dialect: Dialect, task: TaskNumber) -> Result<Look> {
        let status = self.store.progress(seat.id, task).await?.status;
        let answer = if status.state.is_terminal() {
            Some(self.show_ended(seat, dialect, &status).await?)
        } else {
            None
        };
        let updated = status.finished_at.unwrap_or(status.last_activity_at);
        Ok(Look { state: status.state, updated, answer })
    }
}

/// A session that is deleted takes its tasks with it; that it may be there again by its name does not matter.
fn gone(task: TaskNumber, error: adjutant_store::Error) -> Error {
    match Error::from(error) {
        error if error.code() == ErrorCode::SessionNotFound => {
            Refusal::new(ErrorCode::TaskNotFound, format!("Task not found: {task}")).into()
        }
        error => error,
    }
}

/// A task as the dialects read it, once it has ended.
pub(crate) fn ended_task(record: &TaskRecord) -> Result<EndedTask> {
    let entry = &record.entry;
    let error = entry.error.clone().unwrap_or_default();
    let outcome = match (entry.state, entry.failure, &record.result) {
        (TaskState::Completed, _, Some(result)) => {
            Outcome::Completed { result: result.clone(), summary: record.summary.clone() }
        }
        (TaskState::Failed, Some(failure), _) => {
            Outcome::Failed { failure, error, partial_result: record.partial_result.clone() }
        }
        (TaskState::Cancelled, _, _) => Outcome::Cancelled { partial_result: record.partial_result.clone() },
        (state, _, _) => return Err(Error::bug(&format_args!("task {} is shown as {state}", entry.id))),
    };
    Ok(EndedTask {
        number: entry.task_id.parse().map_err(|error| Error::bug(&error))?,
        agent: entry.agent.clone(),
        label: entry.label.clone(),
        depth: record.depth,
        metadata: record.metadata.as_object().cloned().unwrap_or_default(),
        outcome,
        turns_used: entry.turns_used,
        answers: record.attempts.iter().map(|attempt| attempt.turns).sum(),
        spent: Spent {
            input_tokens: entry.input_tokens,
            output_tokens: entry.output_tokens,
            cost_nanousd: 0,
        },
    })
}
