//! Tool calls: where they are answered, how long that may take, and how the answer looks.

use std::pin::pin;
use std::time::Duration;

use adjutant_agent::{ErrorCode, Refusal, SHARED_CONTEXT, SUBAGENT};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CreateTaskResult, ProgressNotificationParam,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};
use tokio::time::{Instant, interval_at};

use super::sessions::Place;
use super::{Mcp, Visit, envelope};
use crate::{Caller, Dialect, Error, Result, Scope, ToolCall, spec};

/// For the key under which a call happens once, as the argument `idempotency_key`; or the header of HTTP.
const IDEMPOTENCY_KEY: &str = "adjutant/idempotency-key";

/// Between two words to a client that waits.
const PROGRESS: Duration = Duration::from_secs(2);

/// What becomes of a call that is understood.
pub(super) enum Answer {
    Now(Value),
    /// A wait that a client asks about instead of being kept waiting.
    Task(CreateTaskResult),
}

impl Mcp {
    /// Answers a call. Whatever is wrong with it is the tool's answer; only a call that was taken back has none.
    pub(super) async fn answer_call(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let visit = Visit::of(&context)?;
        let text = |name: &str| context.meta.get(name).and_then(Value::as_str).map(str::to_owned);
        let call = ToolCall {
            tool: request.name.into_owned(),
            arguments: Value::Object(request.arguments.unwrap_or_default()),
            idempotency_key: text(IDEMPOTENCY_KEY).or_else(|| visit.idempotency_key.clone()),
            traceparent: text("traceparent"),
        };
        let id = serde_json::to_value(&context.id).unwrap_or_default();
        let under_way = self.revoked.under_way(visit.whereabouts, &id);
        let answer = tokio::select! {
            answer = self.answer(&visit, call, &context) => answer,
            () = context.ct.cancelled() => return Err(taken_back()),
            () = under_way.token.cancelled() => return Err(taken_back()),
        };
        Ok(match answer {
            Ok(Answer::Now(answer)) => CallToolResult::structured(answer).into(),
            Ok(Answer::Task(task)) => CallToolResponse::Task(task),
            Err(error) => refused(error).into(),
        })
    }

    async fn answer(
        &self,
        visit: &Visit<'_>,
        mut call: ToolCall,
        context: &RequestContext<RoleServer>,
    ) -> Result<Answer> {
        visit.caller.needs(&[Scope::Delegate])?;
        let place = Place::take(&mut call.arguments, visit.whereabouts)?;
        // Before a session is made for it.
        spec::Request::read(&call)?;
        let place = match place {
            Some(place) => place,
            None if begins(&call) => self.shared.open_new_session(visit.caller).await?,
            None => return Err(homeless().into()),
        };
        // What it said once does not count: every request says it.
        let knows_tasks = context.meta.client_capabilities().is_some_and(|known| known.supports_tasks());
        let begun = match spec::as_wait(&call).filter(|_| knows_tasks) {
            Some(wait) => self.wait_as_task(visit, &place, &wait).await?,
            None => None,
        };
        let mut answer = match begun {
            Some(Answer::Now(answer)) => answer,
            Some(Answer::Task(task)) => return Ok(Answer::Task(task)),
            None => {
                let answer = telling(context, self.call_in(visit.caller, &place, call)).await;
                if let (Err(_), Place::New(name)) = (&answer, &place) {
                    self.forget(visit.caller, name).await;
                }
                answer?
            }
        };
        if let (Place::Own(name) | Place::New(name), Some(fields)) = (&place, answer.as_object_mut()) {
            fields.insert("session_id".to_owned(), json!(name));
        }
        Ok(Answer::Now(answer))
    }

    /// Calls a tool in a session; one that is the client's own is made if it is not there.
    pub(super) async fn call_in(&self, caller: &Caller, place: &Place, call: ToolCall) -> Result<Value> {
        let (desk, name) = (&self.shared.desk, place.name());
        self.shared.allow_status(caller, name, &call)?;
        let is_own = matches!(place, Place::Own(_));
        if is_own && !desk.has_met(caller, name) {
            self.shared.open_session(caller, name).await?;
        }
        match desk.call(caller, name, call.clone(), Dialect::Spec).await {
            Err(error) if is_own && error.code() == ErrorCode::SessionNotFound => {
                self.shared.open_session(caller, name).await?;
                desk.call(caller, name, call, Dialect::Spec).await
            }
            answer => answer,
        }
    }

    /// Nothing is left of a session that was made for a call that is refused: nobody was told its name.
    async fn forget(&self, caller: &Caller, name: &str) {
        let store = &self.shared.desk.store;
        let gone = async { store.delete_session(store.session(&caller.tenant, name).await?.id).await };
        if let Err(error) = gone.await {
            tracing::warn!(session.id = name, "a session that nobody uses is left: {error}");
        }
    }
}

/// Whether a call makes sense in a session that has nothing in it yet.
fn begins(call: &ToolCall) -> bool {
    let action = call.arguments["action"].as_str().unwrap_or_default();
    match call.tool.as_str() {
        SUBAGENT => matches!(action, "list_agents" | "define" | "spawn" | "batch"),
        SHARED_CONTEXT => matches!(action, "write" | "list_keys"),
        _ => false,
    }
}

fn homeless() -> Refusal {
    Refusal::invalid("session_id", "is required: give the session_id that an earlier answer had")
}

/// Does the work; a client that asked to hear of its progress hears that it is waited for.
async fn telling(
    context: &RequestContext<RoleServer>,
    work: impl Future<Output = Result<Value>>,
) -> Result<Value> {
    let Some(token) = context.meta.get_progress_token() else { return work.await };
    let begun = Instant::now();
    let mut ticks = interval_at(begun + PROGRESS, PROGRESS);
    let mut work = pin!(work);
    loop {
        tokio::select! {
            answer = &mut work => return answer,
            _ = ticks.tick() => {
                let waited = begun.elapsed().as_secs();
                let progress = ProgressNotificationParam::new(token.clone(), begun.elapsed().as_secs_f64())
        .with_message(format!("Waiting for tasks to end, for {waited} s"));
                // Who is gone is noticed by the transport.
                let _ = context.peer.notify_progress(progress).await;
            }
        }
    }
}

/// An error in the form that all have, as the tool's answer.
fn refused(error: Error) -> CallToolResult {
    let code = error.code();
    CallToolResult::structured_error(envelope::refused(code, &error.into_message()))
}

fn taken_back() -> ErrorData {
    ErrorData::internal_error("The request was cancelled by its sender", None)
}
