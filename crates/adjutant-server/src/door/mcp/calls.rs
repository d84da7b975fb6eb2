//! Tool calls: where they are answered, how long that may take, and how the answer looks.

use std::pin::pin;
use std::time::Duration;

use adjutant_agent::{Refusal, dialects};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CreateTaskResult,
    ProgressNotificationParam,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};
use tokio::time::{Instant, interval_at};

use super::sessions::Place;
use super::{Mcp, Visit, envelope};
use crate::dialect::Request;
use crate::{Caller, Dialect, Error, Result, Scope, ToolCall, spec};

/// For the key under which a call happens once, as the argument `idempotency_key`; or the header of HTTP.
const IDEMPOTENCY_KEY: &str = "adjutant/idempotency-key";

/// Between two words to a client that waits.
const PROGRESS: Duration = Duration::from_secs(2);

/// What becomes of a call that is understood.
pub(super) enum Answer {
    Now(dialects::Answer),
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
            Ok(Answer::Now(answer)) => result(answer).into(),
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
        let place = Place::take(&mut call.arguments, self.dialect.session_argument(), visit.whereabouts)?;
        // Before a session is made for it.
        let request = Request::read(&call, self.dialect)?;
        if let Request::Refused(answer) = request {
            return Ok(Answer::Now(answer));
        }
        let place = match place {
            Some(place) => place,
            None if request.begins() => self.shared.open_new_session(visit.caller).await?,
            None => return Err(self.homeless().into()),
        };
        // What it said once does not count: every request says it.
        let knows_tasks = context.meta.client_capabilities().is_some_and(|known| known.supports_tasks());
        let begun = if !knows_tasks {
            Ok(None)
        } else if self.dialect == Dialect::Spec {
            match spec::as_wait(&call) {
                Some(wait) => self.wait_as_task(visit, &place, &wait).await,
                None => Ok(None),
            }
        } else {
            self.call_as_task(visit, &place, &call, &request).await.map(Some)
        };
        let answer = match begun {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => telling(context, self.call_in(visit.caller, &place, call, self.dialect))
                .await
                .map(Answer::Now),
            Err(error) => Err(error),
        };
        if let (Err(_), Place::New(name)) = (&answer, &place) {
            self.forget(visit.caller, name).await;
        }
        Ok(match answer? {
            Answer::Now(answer) => Answer::Now(self.with_session(answer, &place)),
            Answer::Task(task) => Answer::Task(task),
        })
    }

    /// Calls a tool in a session; one that is the client's own is made if it is not there.
    pub(super) async fn call_in(
        &self,
        caller: &Caller,
        place: &Place,
        call: ToolCall,
        dialect: Dialect,
    ) -> Result<dialects::Answer> {
        let (desk, name) = (&self.shared.desk, place.name());
        self.shared.allow_status(caller, name, &call)?;
        self.open_if_own(caller, place).await?;
        match desk.call(caller, name, call.clone(), dialect).await {
            Err(error) if place.lacks_own(&error) => {
                self.shared.open_session(caller, name).await?;
                desk.call(caller, name, call, dialect).await
            }
            answer => answer,
        }
    }

    /// Makes a session that is the client's own, unless we have met it; it may be gone all the same.
    pub(super) async fn open_if_own(&self, caller: &Caller, place: &Place) -> Result<()> {
        match place {
            Place::Own(name) if !self.shared.desk.has_met(caller, name) => {
                self.shared.open_session(caller, name).await
            }
            Place::Own(_) | Place::Named(_) | Place::New(_) => Ok(()),
        }
    }

    /// Tells a client whose session was made for it what it is called. In the other dialects, whose answers have their own form,
    /// only who has more to ask is told.
    fn with_session(&self, mut answer: dialects::Answer, place: &Place) -> dialects::Answer {
        let (name, is_new) = match place {
            Place::Named(_) => return answer,
            Place::Own(name) => (name, false),
            Place::New(name) => (name, true),
        };
        let is_told = self.dialect == Dialect::Spec || (is_new && answer.goes_on);
        if !is_told {
            return answer;
        }
        let argument = self.dialect.session_argument();
        let json = answer.value.to_string();
        let is_json = answer.text == json;
        if let Some(fields) = answer.value.as_object_mut() {
            fields.insert(argument.to_owned(), json!(name));
        }
        if is_json {
            answer.text = answer.value.to_string();
        } else {
            answer.text.push_str(&format!("\nGive the {argument} {name:?} with it."));
        }
        answer
    }

    fn homeless(&self) -> Refusal {
        let argument = self.dialect.session_argument();
        Refusal::invalid(
            argument,
            format_args!("is required: give the {argument} that an earlier answer had"),
        )
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

/// Does the work; a client that asked to hear of its progress hears that it is waited for.
async fn telling(
    context: &RequestContext<RoleServer>,
    work: impl Future<Output = Result<dialects::Answer>>,
) -> Result<dialects::Answer> {
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

/// An answer as the protocol has it: the text for models, and the value for programs where it is an object.
pub(super) fn result(answer: dialects::Answer) -> CallToolResult {
    let content = vec![ContentBlock::text(answer.text)];
    let mut result =
        if answer.is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
    result.structured_content = Some(answer.value).filter(Value::is_object);
    result
}

/// An error in the form that all have, as the tool's answer.
fn refused(error: Error) -> CallToolResult {
    let code = error.code();
    CallToolResult::structured_error(envelope::refused(code, &error.into_message()))
}

fn taken_back() -> ErrorData {
    ErrorData::internal_error("The request was cancelled by its sender", None)
}
