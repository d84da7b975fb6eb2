//! The extension `io.modelcontextprotocol/tasks`: a wait that would keep its client waiting is a task of MCP's, which the client asks
//! about whenever it likes, here or at another server. It has no row of its own: its id says which of our tasks it waits for,
//! and how they stand is how it stands.

use adjutant_agent::{SUBAGENT, TaskNumber, TaskState, WaitMode};
use adjutant_dialects::spec::{
    Notifications, PolledWait, StartedWait, WaitCall, poll_wait, start_wait,
};
use adjutant_dialects::{self as dialects, ParsedCall, SessionRef, Started};
use adjutant_store::EndWait;
use chrono::{DateTime, SecondsFormat, TimeZone, Utc};
use rmcp::ErrorData;
use rmcp::model::{
    CallToolResult, ContentBlock, CreateTaskResult, DetailedTask, GetTaskResult, Task, TaskPayload,
    TaskStatus,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::calls::{Answer, result, session_note};
use super::resources::{decoded, encoded};
use super::sessions::{Place, is_own};
use super::{Mcp, McpRequest, fault};
use crate::{Dialect, Result, Scope, ToolCall};

/// When it is worth asking again: a task of ours takes seconds.
const POLL_MS: u64 = 2_000;

/// As many tasks as a wait may name; an id with more would be a text of its own.
const MOST: usize = 100;

/// What the caller of a wait said of the tasks that it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Awaits {
    /// Which they are.
    Named,
    /// Nothing: they were the session's active ones.
    Session,
}

/// The id of a wait: in which dialect, when it began, for how many, for which, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
struct WaitId {
    dialect: Dialect,
    awaits: Awaits,
    since: DateTime<Utc>,
    mode: WaitMode,
    tasks: Vec<TaskNumber>,
    session: String,
}

impl std::fmt::Display for WaitId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tasks: Vec<String> = self.tasks.iter().map(TaskNumber::to_string).collect();
        let (since, session) = (self.since.timestamp_millis(), encoded(&self.session));
        write!(
            f,
            "{}.{since}.{}.{}.{session}",
            word(self.dialect, self.awaits),
            self.mode.as_str(),
            tasks.join("+")
        )
    }
}

/// What an id begins with: the other dialects wait for a task in the call that makes it.
fn word(dialect: Dialect, awaits: Awaits) -> &'static str {
    match (dialect, awaits) {
        (Dialect::Spec, Awaits::Named) => "wait",
        (Dialect::Spec, Awaits::Session) => "session",
        (dialect, Awaits::Named | Awaits::Session) => dialect.as_str(),
    }
}

impl WaitId {
    fn read(id: &str) -> Option<Self> {
        let parts: Vec<&str> = id.split('.').collect();
        let [first, since, mode, tasks, session] = parts[..] else { return None };
        let tasks =
            tasks.split('+').map(str::parse).collect::<Result<Vec<TaskNumber>, _>>().ok()?;
        let kinds =
            Dialect::ALL.into_iter().flat_map(|it| [(it, Awaits::Named), (it, Awaits::Session)]);
        let (dialect, awaits) =
            kinds.into_iter().find(|(dialect, awaits)| word(*dialect, *awaits) == first)?;
        let read = Self {
            dialect,
            awaits,
            since: Utc.timestamp_millis_opt(since.parse().ok()?).single()?,
            mode: mode.parse().ok()?,
            tasks,
            session: decoded(session)?,
        };
        // One wait has one id.
        (read.to_string() == id && read.tasks.len() <= MOST).then_some(read)
    }

    fn task(&self, status: TaskStatus, updated: DateTime<Utc>) -> Task {
        Task::new(self.to_string(), status, utc(self.since), utc(updated.max(self.since)))
            .with_poll_interval_ms(POLL_MS)
    }
}

fn utc(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

fn unknown() -> ErrorData {
    ErrorData::invalid_params("taskId: there is no such task", None)
}

impl Mcp {
    /// The task that stands for a wait, or its answer if what is waited for has happened already; none if it is to be waited for. A
    /// wait for nothing in particular becomes one for what is active now, so that it says the same however often it is asked.
    pub(super) async fn wait_as_task(
        &self,
        visit: &McpRequest<'_>,
        place: &Place,
        wait: &WaitCall,
    ) -> Result<Option<Answer>> {
        if wait.timeout.is_zero() {
            return Ok(None);
        }
        let service = &self.shared.service;
        let session = service.store.session(&visit.caller.tenant, place.name()).await;
        // The plain call says what is wrong, or makes the session.
        let Ok(session) = session else { return Ok(None) };
        let tasks = match start_wait(&service.context(), session.id, wait).await? {
            StartedWait::Answered(answer) => {
                return Ok(Some(Answer::Now(dialects::Answer::json(answer))));
            }
            StartedWait::For(tasks) if tasks.len() > MOST => return Ok(None),
            StartedWait::For(tasks) => tasks,
        };
        let now = Utc::now();
        let id = WaitId {
            dialect: Dialect::Spec,
            awaits: if wait.task_ids.is_some() { Awaits::Named } else { Awaits::Session },
            since: whole_ms(now),
            mode: wait.mode,
            tasks,
            session: session.name,
        };
        let message =
            format!("Waiting for {} of {} tasks to end", id.mode.as_str(), id.tasks.len());
        let task = id.task(TaskStatus::Working, now).with_status_message(message);
        Ok(Some(Answer::Task(CreateTaskResult::new(task))))
    }

    /// The task that stands for a call that waits, or the call's answer if it does not wait.
    pub(super) async fn call_as_task(
        &self,
        visit: &McpRequest<'_>,
        place: &Place,
        call: &ParsedCall,
    ) -> Result<Answer> {
        let (service, name) = (&self.shared.service, place.name());
        self.open_if_own(visit.caller, place).await?;
        let mut begun = service.start_call(visit.caller, name, call).await;
        if begun.as_ref().is_err_and(|error| place.lacks_own(error)) {
            self.shared.open_session(visit.caller, name).await?;
            begun = service.start_call(visit.caller, name, call).await;
        }
        let task = match begun? {
            Started::Answered(answer) => return Ok(Answer::Now(answer)),
            Started::Waiting(task) => task,
        };
        let now = Utc::now();
        let id = WaitId {
            dialect: self.dialect,
            awaits: Awaits::Named,
            since: whole_ms(now),
            mode: WaitMode::Any,
            tasks: vec![task],
            session: name.to_owned(),
        };
        let task =
            id.task(TaskStatus::Working, now).with_status_message(format!("{task} is under way"));
        Ok(Answer::Task(CreateTaskResult::new(task)))
    }

    pub(super) async fn task(
        &self,
        id: &str,
        visit: &McpRequest<'_>,
    ) -> Result<GetTaskResult, ErrorData> {
        visit.caller.needs(&[Scope::Delegate]).map_err(fault)?;
        let id = WaitId::read(id).ok_or_else(unknown)?;
        let (payload, message, updated) = if id.dialect == Dialect::Spec {
            let look = self.look(&id, visit).await.map_err(fault)?;
            let (payload, message) = payload(&look, &id);
            (payload, message, look.updated)
        } else {
            self.look_at_call(&id, visit).await.map_err(fault)?
        };
        let task = id.task(payload.status(), updated).with_status_message(message);
        Ok(GetTaskResult::new(DetailedTask::new(task, payload)))
    }

    async fn look_at_call(
        &self,
        id: &WaitId,
        visit: &McpRequest<'_>,
    ) -> Result<(TaskPayload, String, DateTime<Utc>)> {
        let (service, tenant) = (&self.shared.service, &visit.caller.tenant);
        let session = service.store.session(tenant, &id.session).await?;
        let session_ref = SessionRef { tenant, name: &id.session, id: session.id };
        let look = service.context().poll_task(&session_ref, id.dialect, id.tasks[0]).await?;
        let payload = match look.answer {
            None => TaskPayload::Working,
            Some(_) if look.state == TaskState::Cancelled => TaskPayload::Cancelled,
            Some(answer) => {
                let mut result = result(answer);
                if is_own(&id.session) {
                    let argument = id.dialect.session_argument();
                    result.content.push(ContentBlock::text(session_note(argument, &id.session)));
                }
                TaskPayload::Completed { result: fields(result) }
            }
        };
        Ok((payload, format!("{} is {}", id.tasks[0], look.state), look.updated))
    }

    async fn look(&self, id: &WaitId, visit: &McpRequest<'_>) -> Result<PolledWait> {
        let service = &self.shared.service;
        let session = service.store.session(&visit.caller.tenant, &id.session).await?;
        let news = match id.awaits {
            Awaits::Named => Notifications::Keep,
            Awaits::Session => Notifications::MarkRead,
        };
        let awaited = EndWait::of(&id.tasks, id.mode);
        Ok(poll_wait(&service.context(), session.id, awaited, id.tasks[0], news).await?)
    }

    /// We never ask a client for anything in a task, so there is nothing to be told.
    pub(super) async fn answer_task(
        &self,
        id: &str,
        visit: &McpRequest<'_>,
    ) -> Result<(), ErrorData> {
        self.task(id, visit).await.map(drop)
    }

    /// Stops what is waited for: that is what its client sees as the task.
    pub(super) async fn stop_task(
        &self,
        id: &str,
        visit: &McpRequest<'_>,
    ) -> Result<(), ErrorData> {
        visit.caller.needs(&[Scope::Delegate]).map_err(fault)?;
        let id = WaitId::read(id).ok_or_else(unknown)?;
        if id.dialect != Dialect::Spec {
            return self.stop_call(&id, visit).await.map_err(fault);
        }
        let place = Place::Named(id.session);
        let mut stopped = Err(unknown());
        for task in id.tasks {
            let call = ToolCall {
                tool: SUBAGENT.to_owned(),
                arguments: json!({"action": "cancel", "task_id": task.to_string()}),
                idempotency_key: None,
                traceparent: None,
            };
            let call = ParsedCall::parse(call, Dialect::Spec)
                .map_err(|refused| fault(refused.refusal.into()))?;
            // Those that were collected are gone; the others are stopped all the same.
            stopped = self
                .call_in(visit.caller, &place, &call, &CancellationToken::new())
                .await
                .map(drop)
                .map_err(fault)
                .or(stopped);
        }
        stopped
    }
}

impl Mcp {
    /// Cancels the task of a call, unless the operator wants it to continue.
    async fn stop_call(&self, id: &WaitId, visit: &McpRequest<'_>) -> Result<()> {
        let service = &self.shared.service;
        let session = service.store.session(&visit.caller.tenant, &id.session).await?;
        Ok(service.context().cancel_for_client(session.id, id.tasks[0]).await?)
    }
}

/// How a wait stands, by how the tasks stand that it is for. If all that have ended were cancelled, so is it; if none of them
/// completed, its answer is an error.
fn payload(look: &PolledWait, id: &WaitId) -> (TaskPayload, String) {
    if !look.met {
        let message = format!("{} is {}", id.tasks[0], look.first.as_str());
        return (TaskPayload::Working, message);
    }
    let all = |wanted: &[TaskState]| look.ended.iter().all(|state| wanted.contains(state));
    let message = format!("{} of {} tasks have ended", look.ended.len(), id.tasks.len());
    if all(&[TaskState::Cancelled]) {
        return (TaskPayload::Cancelled, message);
    }
    let answer = look.answer.clone();
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

/// As an id has it.
fn whole_ms(at: DateTime<Utc>) -> DateTime<Utc> {
    Utc.timestamp_millis_opt(at.timestamp_millis()).single().unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_says_all_that_is_to_be_known() {
        let id = WaitId {
            dialect: Dialect::Spec,
            awaits: Awaits::Named,
            since: Utc.timestamp_millis_opt(1_790_000_000_123).unwrap(),
            mode: WaitMode::All,
            tasks: vec![TaskNumber(1), TaskNumber(100)],
            session: "é. +1".to_owned(),
        };
        let text = id.to_string();
        assert_eq!(text, "wait.1790000000123.all.t_01+t_100.%C3%A9%2E%20%2B1");
        assert_eq!(WaitId::read(&text), Some(id.clone()));
        let id = WaitId { awaits: Awaits::Session, ..id };
        assert_eq!(id.to_string(), "session.1790000000123.all.t_01+t_100.%C3%A9%2E%20%2B1");
        assert_eq!(WaitId::read(&id.to_string()), Some(id));
        for wrong in [
            "",
            "wait",
            "wait.1.any..a",
            "wait.1.some.t_01.a",
            "wait.x.any.t_01.a",
            "wait.1.any.t_1.a",
            "wait.01.any.t_01.a",
            "wait.1.any.t_01.a.b",
            "786512e2-9e0d-44bd-8f29-789f320fe840",
        ] {
            assert_eq!(WaitId::read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_wait_stands_as_its_tasks_do() {
        let id = WaitId::read("wait.1.any.t_01.a").unwrap();
        let stands = |met, ended: &[TaskState]| {
            let look = PolledWait {
                met,
                ended: ended.to_vec(),
                first: TaskState::Running,
                updated: Utc::now(),
                answer: json!({"tasks": [], "timed_out": false}),
            };
            let stands = payload(&look, &id).0;
            if let TaskPayload::Completed { result } = &stands {
                return format!("completed, {}", result["isError"]);
            }
            format!("{:?}", stands.status())
        };
        assert_eq!(stands(false, &[]), "Working");
        assert_eq!(stands(true, &[TaskState::Completed]), "completed, false");
        assert_eq!(stands(true, &[TaskState::Failed]), "completed, true");
        assert_eq!(stands(true, &[TaskState::Cancelled]), "Cancelled");
        assert_eq!(stands(true, &[TaskState::Cancelled, TaskState::Failed]), "completed, true");
        assert_eq!(stands(true, &[TaskState::Cancelled, TaskState::Completed]), "completed, false");
    }
}
