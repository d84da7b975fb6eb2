//! Tool calls: their sessions, their waits, and the form of their results.

use std::pin::pin;
use std::time::Duration;

use adjutant_agent::Refusal;
use adjutant_dialects::{Answer, ParsedCall};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CreateTaskResult,
    ProgressNotificationParam,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};
use tokio::time::{Instant, interval_at};
use tokio_util::sync::CancellationToken;

use super::sessions::SessionSource;
use super::{McpRequest, McpServer, message};
use crate::{Caller, Dialect, Error, Result, Scope, ToolCall};

/// The idempotency key in `_meta`; without it, the HTTP header is used.
const META_IDEMPOTENCY_KEY: &str = "adjutant/idempotency-key";

/// Between two progress notifications to a client that waits.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);

/// The response to a tool call that was not refused.
pub(super) enum ToolResponse {
    Answer(Answer),
    /// An answer in the form of another source, and a text that names the session.
    AnswerWithNote(Answer, String),
    /// An MCP task, which the client polls.
    Task(CreateTaskResult),
}

impl McpServer {
    /// Answers a tool call. Every refusal is a tool result; only a cancelled call has none.
    pub(super) async fn tool_call(
        &self,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let request = McpRequest::of(&context)?;
        let meta = |name: &str| context.meta.get(name).and_then(Value::as_str).map(str::to_owned);
        let call = ToolCall {
            tool: params.name.into_owned(),
            arguments: Value::Object(params.arguments.unwrap_or_default()),
            idempotency_key: meta(META_IDEMPOTENCY_KEY).or_else(|| request.idempotency_key.clone()),
            traceparent: meta("traceparent"),
        };
        let id = serde_json::to_value(&context.id).unwrap_or_default();
        let running = self.running.register(&request.caller.tenant, &request.session_headers, &id);
        let cancelled = &running.token;
        // A lost connection ends the wait but not the task. After an explicit cancel, the response
        // waits until the task is cancelled.
        let disconnected = async {
            context.ct.cancelled().await;
            if cancelled.is_cancelled() {
                std::future::pending::<()>().await;
            }
        };
        let response = tokio::select! {
            response = self.respond(request, call, &context, cancelled) => response,
            () = disconnected => return Err(request_cancelled()),
        };
        if cancelled.is_cancelled() {
            return Err(request_cancelled());
        }
        Ok(match response {
            Ok(ToolResponse::Answer(answer)) => call_result(answer).into(),
            Ok(ToolResponse::AnswerWithNote(answer, note)) => {
                let mut result = call_result(answer);
                result.content.push(ContentBlock::text(note));
                result.into()
            }
            Ok(ToolResponse::Task(task)) => CallToolResponse::Task(task),
            Err(error) => error_result(error).into(),
        })
    }

    async fn respond(
        &self,
        request: &McpRequest,
        mut call: ToolCall,
        context: &RequestContext<RoleServer>,
        cancelled: &CancellationToken,
    ) -> Result<ToolResponse> {
        let caller = &request.caller;
        caller.require(&[Scope::Delegate])?;
        let argument = self.dialect.session_argument();
        let session = SessionSource::take(&mut call.arguments, argument, &request.session_headers)?;
        // Parsed before a session is created for it.
        let call = ParsedCall::parse(call, self.dialect, self.shared.service.texts())
            .map_err(|refused| refused.refusal)?;
        if let Some(answer) = call.rejected() {
            return Ok(ToolResponse::Answer(answer.clone()));
        }
        let session = match session {
            Some(session) => session,
            None if call.can_open_session() => self.shared.create_session(caller).await?,
            None => return Err(self.missing_session().into()),
        };
        self.shared.allow_status(caller, session.name(), &call)?;
        let response = match self.start_as_task(request, &session, &call, context).await {
            Ok(Some(response)) => Ok(response),
            Ok(None) => {
                let work = self.call_in_session(caller, &session, &call, cancelled);
                let work = until_cancelled(&call, cancelled, work);
                with_progress(context, work).await.map(ToolResponse::Answer)
            }
            Err(error) => Err(error),
        };
        if let (Err(_), SessionSource::Created(name)) = (&response, &session) {
            self.delete_unused_session(caller, name).await;
        }
        Ok(match response? {
            ToolResponse::Answer(answer) => self.with_session(answer, &session),
            response @ (ToolResponse::AnswerWithNote(..) | ToolResponse::Task(_)) => response,
        })
    }

    /// Starts the call as an MCP task if the client supports those; `None` if the call has to be
    /// answered with a wait instead.
    async fn start_as_task(
        &self,
        request: &McpRequest,
        session: &SessionSource,
        call: &ParsedCall,
        context: &RequestContext<RoleServer>,
    ) -> Result<Option<ToolResponse>> {
        // Each request has the client's capabilities; those of earlier requests do not count.
        let capabilities = context.meta.client_capabilities();
        if !capabilities.is_some_and(|capabilities| capabilities.supports_tasks()) {
            return Ok(None);
        }
        if self.dialect != Dialect::Spec {
            return self.call_as_task(&request.caller, session, call).await.map(Some);
        }
        match call.as_wait() {
            Some(wait) => self.wait_as_task(&request.caller, session, wait).await,
            None => Ok(None),
        }
    }

    /// Calls a tool in a session, which is created first if a header names it and it does not
    /// exist.
    pub(super) async fn call_in_session(
        &self,
        caller: &Caller,
        session: &SessionSource,
        call: &ParsedCall,
        cancelled: &CancellationToken,
    ) -> Result<Answer> {
        let (service, name) = (&self.shared.service, session.name());
        self.prepare_session(caller, session).await?;
        match service.call_parsed(caller, name, call, cancelled).await {
            Err(error) if session.must_be_created(&error) => {
                self.shared.ensure_session(caller, name).await?;
                service.call_parsed(caller, name, call, cancelled).await
            }
            answer => answer,
        }
    }

    /// Creates a session that a header names, unless it is cached. A cached session may have been
    /// deleted, so a call in it can still find none.
    pub(super) async fn prepare_session(
        &self,
        caller: &Caller,
        session: &SessionSource,
    ) -> Result<()> {
        match session {
            SessionSource::Header(name) if !self.shared.service.is_cached(caller, name) => {
                self.shared.ensure_session(caller, name).await
            }
            SessionSource::Header(_) | SessionSource::Argument(_) | SessionSource::Created(_) => {
                Ok(())
            }
        }
    }

    /// Names the session in the answer to a call that did not name one. An answer in the form of
    /// another source names only a new session: as a field if it is a JSON object, else in a note.
    fn with_session(&self, mut answer: Answer, session: &SessionSource) -> ToolResponse {
        let (name, is_new) = match session {
            SessionSource::Argument(_) => return ToolResponse::Answer(answer),
            SessionSource::Header(name) => (name, false),
            SessionSource::Created(name) => (name, true),
        };
        if self.dialect != Dialect::Spec && !is_new {
            return ToolResponse::Answer(answer);
        }
        let argument = self.dialect.session_argument();
        let value_text = answer.value.to_string();
        let is_json = answer.text == value_text;
        if let Some(fields) = answer.value.as_object_mut() {
            fields.insert(argument.to_owned(), json!(name));
        }
        if is_json && answer.value.is_object() {
            answer.text = answer.value.to_string();
        } else if answer.still_running {
            answer.text.push_str(&format!("\nGive the {argument} {name:?} with it."));
        } else {
            return ToolResponse::AnswerWithNote(answer, session_note(argument, name));
        }
        ToolResponse::Answer(answer)
    }

    fn missing_session(&self) -> Refusal {
        let argument = self.dialect.session_argument();
        Refusal::invalid(
            argument,
            format_args!("is required: give the {argument} of an earlier answer"),
        )
    }

    /// Deletes the session that was created for a refused call: the client never learns its name.
    async fn delete_unused_session(&self, caller: &Caller, name: &str) {
        let store = &self.shared.service.store;
        let delete =
            async { store.delete_session(store.session(&caller.tenant, name).await?.id).await };
        if let Err(error) = delete.await {
            adjutant_store::warn_unless_outage!(
                error,
                session.id = name,
                "cannot delete the unused session {name}: {error}"
            );
        }
    }
}

/// Ends a call when its client cancels it, unless the call waits for a task of its own: that wait
/// handles the cancel itself, because it cancels the task too.
async fn until_cancelled(
    call: &ParsedCall,
    cancelled: &CancellationToken,
    work: impl Future<Output = Result<Answer>>,
) -> Result<Answer> {
    if call.waits_for_task() {
        return work.await;
    }
    tokio::select! {
        answer = work => answer,
        () = cancelled.cancelled() => Ok(Answer::plain("")),
    }
}

/// Names a session that was created for a call.
pub(super) fn session_note(argument: &str, name: &str) -> String {
    format!(
        "This call created a session. Give the {argument} {name:?} with further calls to work in it."
    )
}

/// Sends progress notifications during the work, if the request has a progress token.
async fn with_progress(
    context: &RequestContext<RoleServer>,
    work: impl Future<Output = Result<Answer>>,
) -> Result<Answer> {
    let Some(token) = context.meta.get_progress_token() else { return work.await };
    let started = Instant::now();
    let mut ticks = interval_at(started + PROGRESS_INTERVAL, PROGRESS_INTERVAL);
    let mut work = pin!(work);
    loop {
        tokio::select! {
            answer = &mut work => return answer,
            _ = ticks.tick() => {
                let waited = started.elapsed();
                let message = format!("Waiting for tasks to end, for {} s", waited.as_secs());
                let progress = ProgressNotificationParam::new(token.clone(), waited.as_secs_f64());
                // The transport notices a client that has disconnected.
                let _ = context.peer.notify_progress(progress.with_message(message)).await;
            }
        }
    }
}

/// An answer as a tool result: the text for models, and the value for programs if it is an object.
pub(super) fn call_result(answer: Answer) -> CallToolResult {
    let content = vec![ContentBlock::text(answer.text)];
    let mut result = if answer.is_error {
        CallToolResult::error(content)
    } else {
        CallToolResult::success(content)
    };
    result.structured_content = Some(answer.value).filter(Value::is_object);
    result
}

/// An error as a tool result.
fn error_result(error: Error) -> CallToolResult {
    let code = error.code();
    CallToolResult::structured_error(message::error_body(code, &error.into_message()))
}

fn request_cancelled() -> ErrorData {
    ErrorData::internal_error("The request was cancelled by its sender", None)
}
