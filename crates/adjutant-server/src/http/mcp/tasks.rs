//! The extension `io.modelcontextprotocol/tasks`: a wait becomes an MCP task, which the client
//! polls at any server. An MCP task has no row of its own: its id names the tasks that it waits
//! for, and its status follows from theirs.

use adjutant_agent::{SUBAGENT, TaskState, WaitMode};
use adjutant_dialects::spec::{
    Notifications, PolledWait, StartedWait, WaitCall, poll_wait, start_wait,
};
use adjutant_dialects::{Answer, ParsedCall, SessionRef, Started};
use adjutant_store::EndWait;
use chrono::{DateTime, Utc};
use rmcp::ErrorData;
use rmcp::model::{
    CallToolResult, ContentBlock, CreateTaskResult, DetailedTask, GetTaskResult, TaskPayload,
    TaskStatus,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::sessions::{SessionSource, is_generated};
use super::tool_calls::{ToolResponse, call_result, session_note};
use super::wait_id::{MAX_TASKS, WaitId, WaitTarget, whole_ms};
use super::{McpRequest, McpServer, error_data};
use crate::{Caller, Dialect, Result, Scope, ToolCall};

impl McpServer {
    /// Starts a `wait` as an MCP task, or answers it if its condition is met already; `None` if the
    /// call has to wait itself. A wait that names no tasks becomes one for the tasks that are
    /// active now, so that every poll is about the same tasks.
    pub(super) async fn wait_as_task(
        &self,
        caller: &Caller,
        session: &SessionSource,
        wait: &WaitCall,
    ) -> Result<Option<ToolResponse>> {
        if wait.timeout.is_zero() {
            return Ok(None);
        }
        let service = &self.shared.service;
        let store = service.store_of(caller);
        let session = service.store.session(&caller.tenant, session.name()).await;
        // The plain call reports the error, or creates the session.
        let Ok(session) = session else { return Ok(None) };
        let tasks = match start_wait(&service.context(&store), session.id, wait).await? {
            StartedWait::Answered(answer) => {
                return Ok(Some(ToolResponse::Answer(Answer::json(answer))));
            }
            StartedWait::For(tasks) if tasks.len() > MAX_TASKS => return Ok(None),
            StartedWait::For(tasks) => tasks,
        };
        let now = Utc::now();
        let id = WaitId {
            dialect: Dialect::Spec,
            target: if wait.task_ids.is_some() { WaitTarget::Named } else { WaitTarget::Session },
            since: whole_ms(now),
            mode: wait.mode,
            tasks,
            session: session.name,
        };
        let message =
            format!("Waiting for {} of {} tasks to end", id.mode.as_str(), id.tasks.len());
        Ok(Some(working(&id, now, message)))
    }

    /// Starts a call of another dialect than `spec` as an MCP task, or answers it if it does not
    /// wait.
    pub(super) async fn call_as_task(
        &self,
        caller: &Caller,
        session: &SessionSource,
        call: &ParsedCall,
    ) -> Result<ToolResponse> {
        let (service, name) = (&self.shared.service, session.name());
        self.prepare_session(caller, session).await?;
        let mut started = service.start_call(caller, name, call).await;
        if started.as_ref().is_err_and(|error| session.must_be_created(error)) {
            self.shared.ensure_session(caller, name).await?;
            started = service.start_call(caller, name, call).await;
        }
        let task = match started? {
            Started::Answered(answer) => return Ok(ToolResponse::Answer(answer)),
            Started::Waiting(task) => task,
        };
        let now = Utc::now();
        let id = WaitId {
            dialect: self.dialect,
            target: WaitTarget::Named,
            since: whole_ms(now),
            mode: WaitMode::Any,
            tasks: vec![task],
            session: name.to_owned(),
        };
        Ok(working(&id, now, format!("Waiting for {task} to end")))
    }

    /// Answers `tasks/get`.
    pub(super) async fn mcp_task(
        &self,
        id: &str,
        request: &McpRequest,
    ) -> Result<GetTaskResult, ErrorData> {
        request.caller.require(&[Scope::Delegate]).map_err(error_data)?;
        let id = WaitId::parse(id).ok_or_else(unknown_task)?;
        let (payload, message, updated) = if id.dialect == Dialect::Spec {
            let polled = self.poll_wait(&id, &request.caller).await.map_err(error_data)?;
            let (payload, message) = wait_payload(&polled, &id);
            (payload, message, polled.updated)
        } else {
            self.poll_call(&id, &request.caller).await.map_err(error_data)?
        };
        let task = id.task(payload.status(), updated).with_status_message(message);
        Ok(GetTaskResult::new(DetailedTask::new(task, payload)))
    }

    async fn poll_call(
        &self,
        id: &WaitId,
        caller: &Caller,
    ) -> Result<(TaskPayload, String, DateTime<Utc>)> {
        let (service, tenant) = (&self.shared.service, &caller.tenant);
        let store = service.store_of(caller);
        let session = service.store.session(tenant, &id.session).await?;
        let session_ref = SessionRef { tenant, name: &id.session, id: session.id };
        let polled =
            service.context(&store).poll_task(&session_ref, id.dialect, id.tasks[0]).await?;
        let payload = match polled.answer {
            None => TaskPayload::Working,
            Some(_) if polled.state == TaskState::Cancelled => TaskPayload::Cancelled,
            Some(answer) => {
                let mut result = call_result(answer);
                if is_generated(&id.session) {
                    let argument = id.dialect.session_argument();
                    result.content.push(ContentBlock::text(session_note(argument, &id.session)));
                }
                TaskPayload::Completed { result: fields(result) }
            }
        };
        Ok((payload, format!("{} is {}", id.tasks[0], polled.state), polled.updated))
    }

    async fn poll_wait(&self, id: &WaitId, caller: &Caller) -> Result<PolledWait> {
        let service = &self.shared.service;
        let store = service.store_of(caller);
        let session = service.store.session(&caller.tenant, &id.session).await?;
        let notifications = match id.target {
            WaitTarget::Named => Notifications::Keep,
            WaitTarget::Session => Notifications::MarkRead,
        };
        let awaited = EndWait::of(&id.tasks, id.mode);
        let (context, first) = (service.context(&store), id.tasks[0]);
        Ok(poll_wait(&context, session.id, awaited, first, notifications).await?)
    }

    /// Answers `tasks/update`. An MCP task here never asks its client for input, so only the id is
    /// checked.
    pub(super) async fn update_mcp_task(
        &self,
        id: &str,
        request: &McpRequest,
    ) -> Result<(), ErrorData> {
        self.mcp_task(id, request).await.map(drop)
    }

    /// Answers `tasks/cancel`: cancels the tasks that the wait is for.
    pub(super) async fn cancel_mcp_task(
        &self,
        id: &str,
        request: &McpRequest,
    ) -> Result<(), ErrorData> {
        request.caller.require(&[Scope::Delegate]).map_err(error_data)?;
        let id = WaitId::parse(id).ok_or_else(unknown_task)?;
        if id.dialect != Dialect::Spec {
            return self.cancel_call(&id, &request.caller).await.map_err(error_data);
        }
        let session = SessionSource::Argument(id.session);
        let mut cancelled = Err(unknown_task());
        for task in id.tasks {
            let call = ToolCall {
                tool: SUBAGENT.to_owned(),
                arguments: json!({"action": "cancel", "task_id": task.to_string()}),
                idempotency_key: None,
                traceparent: None,
            };
            let call = ParsedCall::parse(call, Dialect::Spec, self.shared.service.texts())
                .map_err(|refused| error_data(refused.refusal.into()))?;
            // A collected task is not found; the others are cancelled nevertheless.
            cancelled = self
                .call_in_session(&request.caller, &session, &call, &CancellationToken::new())
                .await
                .map(drop)
                .map_err(error_data)
                .or(cancelled);
        }
        cancelled
    }

    /// Cancels the task of a call, unless `dialects.on_client_cancel` is `continue`.
    async fn cancel_call(&self, id: &WaitId, caller: &Caller) -> Result<()> {
        let service = &self.shared.service;
        let store = service.store_of(caller);
        let session = service.store.session(&caller.tenant, &id.session).await?;
        Ok(service.context(&store).cancel_for_client(session.id, id.tasks[0]).await?)
    }
}

/// The response with an MCP task that has just been created.
fn working(id: &WaitId, now: DateTime<Utc>, message: String) -> ToolResponse {
    let task = id.task(TaskStatus::Working, now).with_status_message(message);
    ToolResponse::Task(CreateTaskResult::new(task))
}

/// The status of a wait: cancelled if all tasks that have ended were cancelled, and an error if
/// none of them completed.
fn wait_payload(polled: &PolledWait, id: &WaitId) -> (TaskPayload, String) {
    if !polled.met {
        let first = &polled.first;
        let why = first.why.as_ref().map(|why| format!(": {}", why.text)).unwrap_or_default();
        let message = format!("{} is {}{why}", id.tasks[0], first.state);
        return (TaskPayload::Working, message);
    }
    let all = |wanted: &[TaskState]| polled.ended.iter().all(|state| wanted.contains(state));
    let message = format!("{} of {} tasks have ended", polled.ended.len(), id.tasks.len());
    if all(&[TaskState::Cancelled]) {
        return (TaskPayload::Cancelled, message);
    }
    let answer = polled.answer.clone();
    let result = if all(&[TaskState::Cancelled, TaskState::Failed]) {
        CallToolResult::structured_error(answer)
    } else {
        CallToolResult::structured(answer)
    };
    (TaskPayload::Completed { result: fields(result) }, message)
}

fn fields(result: CallToolResult) -> serde_json::Map<String, Value> {
    match serde_json::to_value(result) {
        Ok(Value::Object(fields)) => fields,
        Ok(_) | Err(_) => serde_json::Map::new(),
    }
}

fn unknown_task() -> ErrorData {
    ErrorData::invalid_params("taskId: there is no such task", None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_of_a_wait_follows_from_its_tasks() {
        let id = WaitId::parse("wait.1.any.t_01.a").unwrap();
        let first = json!({
            "id": adjutant_agent::TaskId::new(), "number": 1, "agent": "helper", "state": "running",
            "turns_used": 0, "answers": 0, "input_tokens": 0, "output_tokens": 0,
            "cost_nanousd": 0, "attempt": 1, "on_worker_loss": "resume",
            "created_at": "2026-01-01T00:00:00Z", "last_activity_at": "2026-01-01T00:00:00Z",
        });
        let first: adjutant_agent::TaskView = serde_json::from_value(first).unwrap();
        let status = |met, ended: &[TaskState]| {
            let polled = PolledWait {
                met,
                ended: ended.to_vec(),
                first: first.clone(),
                updated: Utc::now(),
                answer: json!({"tasks": [], "timed_out": false}),
            };
            let payload = wait_payload(&polled, &id).0;
            if let TaskPayload::Completed { result } = &payload {
                return format!("completed, {}", result["isError"]);
            }
            format!("{:?}", payload.status())
        };
        assert_eq!(status(false, &[]), "Working");
        assert_eq!(status(true, &[TaskState::Completed]), "completed, false");
        assert_eq!(status(true, &[TaskState::Failed]), "completed, true");
        assert_eq!(status(true, &[TaskState::Cancelled]), "Cancelled");
        assert_eq!(status(true, &[TaskState::Cancelled, TaskState::Failed]), "completed, true");
        assert_eq!(status(true, &[TaskState::Cancelled, TaskState::Completed]), "completed, false");
    }
}
