//! The debug mode of contract G30: what tasks are asked and answer, in logs and traces. Without it no text of a task, a
//! model or a tool is in either.

use std::sync::atomic::{AtomicBool, Ordering};

use adjutant_agent::{Answer, Arguments, Block, Message, Request, TaskId, ToolOutput, ToolResult, ToolUse};
use serde_json::{Value, json};

/// The target of events that have payload in them, all at debug level.
pub const TARGET: &str = "adjutant::payloads";

static LOGGED: AtomicBool = AtomicBool::new(false);

/// Switches it on for this process, for good.
pub fn log_payloads() {
    LOGGED.store(true, Ordering::Relaxed);
}

pub(crate) fn are_logged() -> bool {
    LOGGED.load(Ordering::Relaxed)
}

pub(crate) fn asked(task: TaskId, request: &Request<'_>) {
    if are_logged() {
        let messages = Value::from_iter(request.messages.iter().map(message)).to_string();
        tracing::debug!(
            target: TARGET,
            { task.id = %task, gen_ai.system_instructions = request.system, gen_ai.input.messages = messages },
            "a model is asked"
        );
    }
}

pub(crate) fn answered(task: TaskId, answer: &Answer) {
    if are_logged() {
        let messages = json!([assistant(answer)]).to_string();
        tracing::debug!(target: TARGET, { task.id = %task, gen_ai.output.messages = messages }, "a model answered");
    }
}

pub(crate) fn used_tool(task: TaskId, call: &ToolUse, result: &ToolResult) {
    if are_logged() {
        let arguments = arguments(call).to_string();
        tracing::debug!(
            target: TARGET,
            {
                task.id = %task,
                gen_ai.tool.name = call.name,
                gen_ai.tool.call.id = call.id,
                gen_ai.tool.call.arguments = arguments,
                gen_ai.tool.call.result = result.content,
            },
            "a tool was called"
        );
    }
}

/// As the OpenTelemetry conventions write messages.
fn message(message: &Message<'_>) -> Value {
    match message {
        Message::User(text) => json!({"role": "user", "parts": [{"type": "text", "content": text}]}),
        Message::Assistant(answer) => assistant(answer),
        Message::ToolResults(results) => {
            let part = |result: &ToolOutput<'_>| json!({"type": "tool_call_response", "id": result.call, "response": result.content});
            json!({"role": "tool", "parts": Value::from_iter(results.iter().map(part))})
        }
    }
}

fn assistant(answer: &Answer) -> Value {
    let part = |block: &Block| match block {
        Block::Text { text } => json!({"type": "text", "content": text}),
        Block::ToolUse(call) => {
            json!({"type": "tool_call", "id": call.id, "name": call.name, "arguments": arguments(call)})
        }
        Block::Opaque { wire, value } => json!({"type": wire, "content": value}),
    };
    let parts = Value::from_iter(answer.content.iter().map(part));
    json!({"role": "assistant", "parts": parts, "finish_reason": answer.stop.as_str()})
}

fn arguments(call: &ToolUse) -> Value {
    match &call.arguments {
        Arguments::Json(arguments) => arguments.clone(),
        Arguments::Malformed(text) => text.as_str().into(),
    }
}
