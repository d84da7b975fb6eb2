//! Runs the tool calls of one answer, at most 8 at a time, and stores each result when it arrives.

use std::time::Instant;

use adjutant_agent::{
    AgentConfig, Arguments, ContextCall, Delegation, PendingCall, Refusal, SUBAGENT, ToolResult,
    ToolUse, prompts,
};
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};
use tracing::Instrument;

use super::Delegating;
use crate::telemetry::FinishedToolCall;
use crate::tools::{FailureKindCell, ToolCall, Toolbox};
use crate::{Stop, Task, fault, payloads, telemetry};

/// The one tool, apart from delegation, that writes to the database under the lease.
pub(super) const SHARED_CONTEXT: &str = "shared_context";

/// How many tools of one answer run at a time.
const MAX_CONCURRENT_TOOLS: usize = 8;

/// Runs the tool calls of one answer of an agent.
pub(super) struct ToolRunner<'a> {
    pub(super) task: &'a Task,
    pub(super) toolbox: &'a Toolbox,
    pub(super) agent: &'a AgentConfig,
    pub(super) delegating: &'a Delegating,
    pub(super) delegation: Delegation,
    /// The tenant of the task, if some tool is only for some tenants.
    pub(super) tenant: Option<&'a str>,
}

impl ToolRunner<'_> {
    /// Runs all of these calls, a few at a time. The error of a tool is a result too, and the model
    /// decides how to continue.
    pub(super) async fn run_tools(
        &self,
        calls: &[PendingCall<'_>],
    ) -> Result<Vec<ToolResult>, Stop> {
        // A draining worker still runs the tools of a stored answer: a tool call that is repeated
        // elsewhere may have an effect twice, and one that is dropped has an unknown outcome.
        self.task.check_lease()?;
        let answers: Vec<_> = calls
            .iter()
            .map(|pending| async move {
                let kind = FailureKindCell::default();
                self.traced(pending.call, &kind, self.stored_result(pending, &kind)).await
            })
            .collect();
        stream::iter(answers).buffer_unordered(MAX_CONCURRENT_TOOLS).try_collect().await
    }

    /// Runs `answer` in a span and logs the call. Returns the result when it is stored.
    pub(super) async fn traced(
        &self,
        call: &ToolUse,
        kind: &FailureKindCell,
        answer: impl Future<Output = Result<ToolResult, Stop>>,
    ) -> Result<ToolResult, Stop> {
        let name = self.known_name(call).unwrap_or("unknown");
        let span = tracing::info_span!(
            "execute_tool",
            otel.name = format!("execute_tool {name}"),
            otel.status_code = tracing::field::Empty,
            gen_ai.operation.name = "execute_tool",
            gen_ai.conversation.id = %self.task.id(),
            gen_ai.tool.name = name,
            gen_ai.tool.type = "function",
            gen_ai.tool.call.id = call.id,
            error.type = tracing::field::Empty,
        );
        let started = Instant::now();
        let answered = async {
            let result = answer.await?;
            payloads::log_tool_call(self.task.id(), call, &result);
            Ok(result)
        };
        let result = answered.instrument(span.clone()).await?;
        if result.is_error {
            span.record("otel.status_code", "ERROR");
            span.record("error.type", kind.get());
        }
        let error = result.is_error.then(|| kind.get());
        let call = FinishedToolCall { name, error, took: started.elapsed() };
        telemetry::log_tool_call(self.task, &call);
        Ok(result)
    }

    /// `None` for a name that the model made up: that is payload, and not logged.
    fn known_name<'c>(&self, call: &'c ToolUse) -> Option<&'c str> {
        self.has(&call.name).then_some(&call.name)
    }

    /// Includes the delegation tool of an agent whose tree is too deep: its calls get an error that
    /// says so.
    fn has(&self, tool: &str) -> bool {
        let delegates = self.delegation != Delegation::Never && tool == SUBAGENT;
        delegates || self.agent.allowed_tools().any(|name| name == tool)
    }

    async fn stored_result(
        &self,
        pending: &PendingCall<'_>,
        kind: &FailureKindCell,
    ) -> Result<ToolResult, Stop> {
        let call = pending.call;
        let arguments = match self.arguments(call) {
            Ok(arguments) => arguments,
            Err(why) => {
                kind.set(if self.has(&call.name) { "invalid_arguments" } else { "unknown_tool" });
                return self.store(call, error(call, why, Instant::now())).await;
            }
        };
        if call.name == SUBAGENT {
            return self.delegate(call, arguments).await;
        }
        if call.name == SHARED_CONTEXT {
            return match ContextCall::parse(arguments, &self.delegating.operator.texts) {
                // The change and its result are stored together, so the call can be repeated.
                Ok(context_call) => {
                    let result = self.task.shared_context(&call.id, &context_call).await;
                    fault::point("tool_stored");
                    result
                }
                Err(refusal) => {
                    self.store(call, error(call, refused(&refusal), Instant::now())).await
                }
            };
        }
        // An earlier attempt may have called a tool whose server is down now.
        let replay = self.toolbox.replay(&call.name).unwrap_or_default();
        if let Some(instead) = pending.result_without_running(replay) {
            return self.store(call, instead).await;
        }
        let started = Instant::now();
        let key = pending.idempotency_key(self.task.id());
        let (task, session, tenant) = (self.task.id(), self.task.session(), self.tenant);
        fault::point("tool_calling");
        let tool_call = ToolCall { arguments, key: &key, task, session, tenant, kind };
        let answer = self.toolbox.call(&call.name, tool_call).await;
        fault::point("tool_answered");
        let result = match answer {
            Ok(text) => ToolResult { is_error: false, ..error(call, text, started) },
            Err(text) => error(call, text, started),
        };
        self.store(call, result).await
    }

    /// The arguments of the call, or the error for the model.
    fn arguments<'c>(&self, call: &'c ToolUse) -> Result<&'c Value, String> {
        // First, because the name may be cut off as well.
        if matches!(call.arguments, Arguments::CutOff(_)) {
            return Err(prompts::CALL_CUT_OFF.to_owned());
        }
        if !self.has(&call.name) {
            let delegates = (self.delegation == Delegation::Allowed).then_some(SUBAGENT);
            let tools: Vec<&str> = self.agent.allowed_tools().chain(delegates).collect();
            return Err(match tools.as_slice() {
                [] => format!("There is no tool {:?}; you have no tools.", call.name),
                tools => format!(
                    "There is no tool {:?}; your tools are: {}.",
                    call.name,
                    tools.join(", ")
                ),
            });
        }
        match &call.arguments {
            Arguments::Json(arguments) if arguments.is_object() => Ok(arguments),
            Arguments::Json(_) | Arguments::Malformed(_) | Arguments::CutOff(_) => {
                Err("The call was not made: its arguments are not a JSON object, or were cut off."
                    .to_owned())
            }
        }
    }

    pub(super) async fn store(
        &self,
        call: &ToolUse,
        result: ToolResult,
    ) -> Result<ToolResult, Stop> {
        let result = if result.content.is_empty() {
            ToolResult { content: prompts::EMPTY_TOOL_RESULT.to_owned(), ..result }
        } else {
            result
        };
        self.task.tool_result(self.known_name(call), &result).await?;
        fault::point("tool_stored");
        Ok(result)
    }
}

pub(super) fn error(call: &ToolUse, content: String, started: Instant) -> ToolResult {
    let duration_ms = i64::try_from(started.elapsed().as_millis()).unwrap_or(i64::MAX);
    ToolResult { call: call.id.clone(), content, is_error: true, duration_ms }
}

pub(super) fn refused(refusal: &Refusal) -> String {
    json!({"error": refusal.code, "message": refusal.message}).to_string()
}
