//! Tool calls: where they are answered, how long that may take, and how the answer looks.

use std::pin::pin;
use std::time::Duration;

use adjutant_agent::Refusal;
use adjutant_dialects::{self as dialects, ParsedCall};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CreateTaskResult,
    ProgressNotificationParam,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};
use tokio::time::{Instant, interval_at};
use tokio_util::sync::CancellationToken;

use super::sessions::Place;
use super::{Mcp, McpRequest, envelope};
use crate::{Caller, Dialect, Error, Result, Scope, ToolCall};

/// For the key under which a call happens once, as the argument `idempotency_key`; or the header of HTTP.
const IDEMPOTENCY_KEY: &str = "adjutant/idempotency-key";

/// Between two words to a client that waits.
const PROGRESS: Duration = Duration::from_secs(2);

/// What becomes of a call that is understood.
pub(super) enum Answer {
    Now(dialects::Answer),
    /// An answer in the form of another source, and a note that names its new session.
    NowWithNote(dialects::Answer, String),
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
        let visit = McpRequest::of(&context)?;
        let text = |name: &str| context.meta.get(name).and_then(Value::as_str).map(str::to_owned);
        let call = ToolCall {
            tool: request.name.into_owned(),
            arguments: Value::Object(request.arguments.unwrap_or_default()),
            idempotency_key: text(IDEMPOTENCY_KEY).or_else(|| visit.idempotency_key.clone()),
            traceparent: text("traceparent"),
        };
        let id = serde_json::to_value(&context.id).unwrap_or_default();
        let under_way = self.revoked.under_way(&visit.caller.tenant, visit.whereabouts, &id);
        let cancelled = &under_way.token;
        // A connection that breaks ends the wait and not its task. After an explicit cancel, the task is cancelled first.
        let broken = async {
            context.ct.cancelled().await;
            if cancelled.is_cancelled() {
                std::future::pending::<()>().await;
            }
        };
        let answer = tokio::select! {
            answer = self.answer(&visit, call, &context, cancelled) => answer,
            () = broken => return Err(taken_back()),
        };
        if cancelled.is_cancelled() {
            return Err(taken_back());
        }
        Ok(match answer {
            Ok(Answer::Now(answer)) => result(answer).into(),
            Ok(Answer::NowWithNote(answer, note)) => {
                let mut result = result(answer);
                result.content.push(ContentBlock::text(note));
                result.into()
            }
            Ok(Answer::Task(task)) => CallToolResponse::Task(task),
            Err(error) => refused(error).into(),
        })
    }

    async fn answer(
        &self,
        visit: &McpRequest<'_>,
        mut call: ToolCall,
        context: &RequestContext<RoleServer>,
        cancelled: &CancellationToken,
    ) -> Result<Answer> {
        visit.caller.needs(&[Scope::Delegate])?;
        let place =
            Place::take(&mut call.arguments, self.dialect.session_argument(), visit.whereabouts)?;
        // Parsed before a session is created for it.
        let call = ParsedCall::parse(call, self.dialect).map_err(|refused| refused.refusal)?;
        if let Some(answer) = call.rejected() {
            return Ok(Answer::Now(answer.clone()));
        }
        let place = match place {
            Some(place) => place,
            None if call.can_open_session() => self.shared.open_new_session(visit.caller).await?,
            None => return Err(self.missing_session().into()),
        };
        self.shared.allow_status(visit.caller, place.name(), &call)?;
        // What it said once does not count: every request says it.
        let knows_tasks =
            context.meta.client_capabilities().is_some_and(|known| known.supports_tasks());
        let begun = if !knows_tasks {
            Ok(None)
        } else if self.dialect == Dialect::Spec {
            match call.as_wait() {
                Some(wait) => self.wait_as_task(visit, &place, wait).await,
                None => Ok(None),
            }
        } else {
            self.call_as_task(visit, &place, &call).await.map(Some)
        };
        let answer = match begun {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => {
                let work = self.call_in(visit.caller, &place, &call, cancelled);
                let work = unless_cancelled(&call, cancelled, work);
                telling(context, work).await.map(Answer::Now)
            }
            Err(error) => Err(error),
        };
        if let (Err(_), Place::New(name)) = (&answer, &place) {
            self.forget(visit.caller, name).await;
        }
        Ok(match answer? {
            Answer::Now(answer) => self.with_session(answer, &place),
            answer @ (Answer::NowWithNote(..) | Answer::Task(_)) => answer,
        })
    }

    /// Calls a tool in a session; one that is the client's own is made if it is not there.
    pub(super) async fn call_in(
        &self,
        caller: &Caller,
        place: &Place,
        call: &ParsedCall,
        cancelled: &CancellationToken,
    ) -> Result<dialects::Answer> {
        let (service, name) = (&self.shared.service, place.name());
        self.open_if_own(caller, place).await?;
        match service.call_parsed(caller, name, call, cancelled).await {
            Err(error) if place.lacks_own(&error) => {
                self.shared.open_session(caller, name).await?;
                service.call_parsed(caller, name, call, cancelled).await
            }
            answer => answer,
        }
    }

    /// Makes a session that is the client's own, unless we have met it; it may be gone all the same.
    pub(super) async fn open_if_own(&self, caller: &Caller, place: &Place) -> Result<()> {
        match place {
            Place::Own(name) if !self.shared.service.has_met(caller, name) => {
                self.shared.open_session(caller, name).await
            }
            Place::Own(_) | Place::Named(_) | Place::New(_) => Ok(()),
        }
    }

    /// Names the session of a client that named none. An answer in the form of another source names only a new session, and if it
    /// is a text, in a note beside it.
    fn with_session(&self, mut answer: dialects::Answer, place: &Place) -> Answer {
        let (name, is_new) = match place {
            Place::Named(_) => return Answer::Now(answer),
            Place::Own(name) => (name, false),
            Place::New(name) => (name, true),
        };
        if self.dialect != Dialect::Spec && !is_new {
            return Answer::Now(answer);
        }
        let argument = self.dialect.session_argument();
        let is_json = answer.text == answer.value.to_string();
        if let Some(fields) = answer.value.as_object_mut() {
            fields.insert(argument.to_owned(), json!(name));
        }
        if is_json && answer.value.is_object() {
            answer.text = answer.value.to_string();
        } else if answer.still_running {
            answer.text.push_str(&format!("\nGive the {argument} {name:?} with it."));
        } else {
            return Answer::NowWithNote(answer, session_note(argument, name));
        }
        Answer::Now(answer)
    }

    fn missing_session(&self) -> Refusal {
        let argument = self.dialect.session_argument();
        Refusal::invalid(
            argument,
            format_args!("is required: give the {argument} that an earlier answer had"),
        )
    }

    /// Nothing is left of a session that was made for a call that is refused: nobody was told its name.
    async fn forget(&self, caller: &Caller, name: &str) {
        let store = &self.shared.service.store;
        let gone =
            async { store.delete_session(store.session(&caller.tenant, name).await?.id).await };
        if let Err(error) = gone.await {
            tracing::warn!(session.id = name, "a session that nobody uses is left: {error}");
        }
    }
}

/// Ends a call that waits for no task of its own when its client cancels it. A call that does is cancelled where it waits.
async fn unless_cancelled(
    call: &ParsedCall,
    cancelled: &CancellationToken,
    work: impl Future<Output = Result<dialects::Answer>>,
) -> Result<dialects::Answer> {
    if call.waits_for_task() {
        return work.await;
    }
    tokio::select! {
        answer = work => answer,
        () = cancelled.cancelled() => Ok(dialects::Answer::plain("")),
    }
}

/// Names a session that was created for a call.
pub(super) fn session_note(argument: &str, name: &str) -> String {
    format!(
        "This call created a session. Give the {argument} {name:?} with further calls to work in it."
    )
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
    let mut result = if answer.is_error {
        CallToolResult::error(content)
    } else {
        CallToolResult::success(content)
    };
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
