//! The tools that one answer asks for, side by side; each result is stored as it comes.

use std::time::Instant;

use adjutant_agent::{
    AgentSpec, Arguments, ContextCall, Delegation, PendingCall, Refusal, SUBAGENT, ToolResult, ToolUse,
    prompts,
};
use futures::future::try_join_all;
use serde_json::{Value, json};
use tracing::Instrument;

use super::Delegating;
use crate::report::UsedTool;
use crate::tools::{ToolCall, Toolbox};
use crate::{Stop, Task, fault, payloads, report};

/// The one tool that writes under the lease.
pub(super) const SHARED_CONTEXT: &str = "shared_context";

/// Where the tools of one answer are used.
pub(super) struct Bench<'a> {
    pub(super) task: &'a Task,
    pub(super) toolbox: &'a Toolbox,
    pub(super) agent: &'a AgentSpec,
    pub(super) delegating: &'a Delegating,
    pub(super) delegation: Delegation,
}

impl Bench<'_> {
    /// Answers all of these calls. A tool that fails is a result for the model, which decides what to make of it.
    pub(super) async fn use_tools(&self, calls: &[PendingCall<'_>]) -> Result<Vec<ToolResult>, Stop> {
        // Not `go_on`: whoever leaves finishes the tools of a stored answer first, or their outcome would be unknown.
        self.task.check_lease()?;
        let answers = calls.iter().map(|pending| self.traced(pending.call, self.stored_result(pending)));
        try_join_all(answers).await
    }

    /// Gives the result when it is stored.
    pub(super) async fn traced(
        &self,
        call: &ToolUse,
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
        let began = Instant::now();
        let answered = async {
            let result = answer.await?;
            payloads::used_tool(self.task.id(), call, &result);
            Ok(result)
        };
        let result = answered.instrument(span.clone()).await?;
        if result.is_error {
            span.record("otel.status_code", "ERROR");
            span.record("error.type", "tool_error");
        }
        let used = UsedTool { name, is_error: result.is_error, took: began.elapsed() };
        report::used_tool(self.task, &used);
        Ok(result)
    }

    /// A name that the model made up is text of the model.
    fn known_name<'c>(&self, call: &'c ToolUse) -> Option<&'c str> {
        self.has(&call.name).then_some(&call.name)
    }

    /// The tool to delegate counts where the agent would have it if the tree were less deep: it is told so.
    fn has(&self, tool: &str) -> bool {
        let delegates = self.delegation != Delegation::Never && tool == SUBAGENT;
        delegates || self.agent.allowed_tools().any(|name| name == tool)
    }

    async fn stored_result(&self, pending: &PendingCall<'_>) -> Result<ToolResult, Stop> {
        let call = pending.call;
        let arguments = match self.arguments(call) {
            Ok(arguments) => arguments,
            Err(why) => return self.store(call, error(call, why, Instant::now())).await,
        };
        if call.name == SUBAGENT {
            return self.delegate(call, arguments).await;
        }
        if call.name == SHARED_CONTEXT {
            return match ContextCall::parse(arguments) {
                // The change and its result are stored together, so it can be asked again whatever happened.
                Ok(context_call) => {
                    let result = self.task.shared_context(&call.id, &context_call).await;
                    fault::point("tool_stored");
                    result
                }
                Err(refusal) => self.store(call, error(call, refused(&refusal), Instant::now())).await,
            };
        }
        // A tool of a server that is away just now may have been called all the same.
        let replay = self.toolbox.replay(&call.name).unwrap_or_default();
        if let Some(instead) = pending.instead_of_running(replay) {
            return self.store(call, instead).await;
        }
        let began = Instant::now();
        let key = pending.idempotency_key(self.task.id());
        let session = self.task.session();
        fault::point("tool_calling");
        let answer = self
            .toolbox
            .call(&call.name, ToolCall { arguments, key: &key, task: self.task.id(), session })
            .await;
        fault::point("tool_answered");
        let result = match answer {
            Ok(text) => ToolResult { is_error: false, ..error(call, text, began) },
            Err(text) => error(call, text, began),
        };
        self.store(call, result).await
    }

    /// What the model meant, or what it is told instead.
    fn arguments<'c>(&self, call: &'c ToolUse) -> Result<&'c Value, String> {
        if !self.has(&call.name) {
            let delegates = (self.delegation == Delegation::Here).then_some(SUBAGENT);
            let tools: Vec<&str> = self.agent.allowed_tools().chain(delegates).collect();
            return Err(match tools.as_slice() {
                [] => format!("There is no tool {:?}; you have no tools.", call.name),
                tools => format!("There is no tool {:?}; your tools are: {}.", call.name, tools.join(", ")),
            });
        }
        match &call.arguments {
            Arguments::Json(arguments) if arguments.is_object() => Ok(arguments),
            Arguments::Json(_) | Arguments::Malformed(_) => {
                Err("The call was not made: its arguments are not a JSON object, or were cut off.".to_owned())
            }
        }
    }

    pub(super) async fn store(&self, call: &ToolUse, result: ToolResult) -> Result<ToolResult, Stop> {
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

pub(super) fn error(call: &ToolUse, content: String, began: Instant) -> ToolResult {
    let duration_ms = i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX);
    ToolResult { call: call.id.clone(), content, is_error: true, duration_ms }
}

pub(super) fn refused(refusal: &Refusal) -> String {
    json!({"error": refusal.code, "message": refusal.message}).to_string()
}
