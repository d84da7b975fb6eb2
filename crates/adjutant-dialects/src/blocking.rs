//! Calls that wait for the task that they spawn.

use adjutant_agent::{
    AgentConfig, EndedTask, ErrorCode, Refusal, SessionId, TaskId, TaskNumber, TaskState,
};
use adjutant_store::{Check, NewDelegation, NewTask, Quota, TaskRecord, TaskView};
use chrono::{DateTime, Utc};
use serde_json::{Map, Value};

use crate::context::{Context, SessionRef, Started};
use crate::error::bug;
use crate::idempotency::CallKey;
use crate::{Answer, Dialect, Error, OnClientCancel, Result, ToolCall};

/// A task of a dialect whose calls name no agent.
pub(crate) struct UnnamedTask {
    /// The agent name of the task.
    pub(crate) agent: &'static str,
    pub(crate) config: AgentConfig,
    pub(crate) assignment: String,
    pub(crate) label: Option<String>,
    pub(crate) metadata: Map<String, Value>,
    pub(crate) quota: Option<Quota>,
}

/// The task that a call waits for.
pub(crate) struct SpawnedTask {
    pub(crate) number: TaskNumber,
    /// False if the idempotency key of the call found an older task.
    pub(crate) is_new: bool,
}

/// A task that a client polls instead of waiting for it.
pub struct PolledTask {
    pub state: TaskState,
    pub updated: DateTime<Utc>,
    /// Once it has ended.
    pub answer: Option<Answer>,
}

impl Context<'_> {
    /// Spawns a task that its caller waits for. It is queued instead of refused when the session is
    /// full, because its caller waits anyway. The same idempotency key finds the same task.
    pub(crate) async fn spawn_unnamed(
        &self,
        session: &SessionRef<'_>,
        call: &ToolCall,
        dialect: &str,
        new: UnnamedTask,
    ) -> Result<SpawnedTask> {
        let key = CallKey::of(call, dialect)?;
        let id = TaskId::new();
        let task = NewTask {
            id: Some(id),
            agent: new.agent.to_owned(),
            assignment: new.assignment,
            label: new.label,
            metadata: new.metadata,
            queue: true,
            quota: new.quota,
            traceparent: call.traceparent(),
            ..NewTask::default()
        };
        let new = NewDelegation {
            task,
            config: Some(new.config),
            any_length: true,
            ..NewDelegation::default()
        };
        let key = key.as_ref().map(CallKey::as_ref);
        let spawned = self.store.delegate(session.id, &new, &self.policy.operator, key).await?;
        Ok(SpawnedTask { number: spawned.number, is_new: spawned.id == id })
    }

    /// Waits again for an existing task.
    pub(crate) async fn wait_again(
        &self,
        session: &SessionRef<'_>,
        task: TaskNumber,
    ) -> Result<Started> {
        self.store.status(session.id, task).await?;
        Ok(Started::Waiting(task))
    }

    pub(crate) async fn wait_for_task(
        &self,
        session: &SessionRef<'_>,
        dialect: Dialect,
        task: TaskNumber,
    ) -> Result<Answer> {
        let mut wait_loop = self.wait_loop(session.id, self.policy.dialects.longest_wait);
        loop {
            let check = wait_loop.check();
            let status = self.store.status(session.id, task).await;
            let status = status.map_err(|error| deleted_with_session(task, error))?;
            if status.state.is_terminal() {
                return self.deliver(session, dialect, &status).await;
            }
            if check == Check::Last {
                return dialect.still_running(self, session, &status).await;
            }
            wait_loop.rest().await;
        }
    }

    /// Renders a task that has ended, and marks its notification as read: no later wait reports
    /// what was delivered.
    async fn deliver(
        &self,
        session: &SessionRef<'_>,
        dialect: Dialect,
        task: &TaskView,
    ) -> Result<Answer> {
        let answer = dialect.ended(self, session, task).await?;
        self.store.mark_read(session.id, &[task.number]).await?;
        Ok(answer)
    }

    /// Cancels a task and its tree because the client has cancelled the call that waits for it,
    /// unless the operator wants such tasks to continue. The text of the task so far is kept.
    pub async fn cancel_for_client(&self, session: SessionId, task: TaskNumber) -> Result<()> {
        match self.policy.dialects.on_client_cancel {
            OnClientCancel::Continue => Ok(()),
            OnClientCancel::Cancel => {
                let cancelled = self.store.cancel_by_number(session, task).await?;
                self.log_cancelled(&cancelled.ended).await;
                Ok(())
            }
        }
    }

    /// Polls a task for a client that does not wait.
    pub async fn poll_task(
        &self,
        session: &SessionRef<'_>,
        dialect: Dialect,
        task: TaskNumber,
    ) -> Result<PolledTask> {
        let status = self.store.status(session.id, task).await?;
        let answer = if status.state.is_terminal() {
            Some(self.deliver(session, dialect, &status).await?)
        } else {
            None
        };
        let updated = status.finished_at.unwrap_or(status.last_activity_at);
        Ok(PolledTask { state: status.state, updated, answer })
    }
}

/// The tasks of a deleted session are gone, even if a new session has its name.
fn deleted_with_session(task: TaskNumber, error: Error) -> Error {
    let is_missing =
        matches!(&error, Error::Refused(refusal) if refusal.code == ErrorCode::SessionNotFound);
    if !is_missing {
        return error;
    }
    Refusal::new(ErrorCode::TaskNotFound, format!("Task not found: {task}")).into()
}

/// The stored record of a task that has ended, as dialects render it.
pub(crate) fn ended_task(record: &TaskRecord) -> Result<EndedTask> {
    let task = &record.entry.task;
    let outcome =
        task.outcome(record.result.clone(), record.summary.clone(), record.partial_result.clone());
    let outcome = outcome.ok_or_else(|| {
        bug(&format_args!("task {} in state {} has no outcome", task.id, task.state))
    })?;
    Ok(EndedTask {
        number: task.number,
        agent: task.agent.clone(),
        label: task.label.clone(),
        depth: record.depth,
        metadata: record.metadata.as_object().cloned().unwrap_or_default(),
        outcome,
        turns_used: task.turns_used,
        answers: task.answers,
        spent: task.spent(),
    })
}
