//! Logs the texts of tasks, models and tools (specification row G30). Without `log_payloads` none
//! of them is in a log or a trace.

use std::sync::atomic::{AtomicBool, Ordering};

use adjutant_agent::{
    Answer, Arguments, Block, Message, Request, TaskId, ToolOutput, ToolResult, ToolUse,
};
use serde_json::{Value, json};

/// The target of the log events with payloads. They are logged at `info`, the default level: the
/// operator asked for them.
pub const TARGET: &str = "adjutant::payloads";

static ENABLED: AtomicBool = AtomicBool::new(false);

/// Enables payload logging for the rest of the life of this process.
pub fn enable() {
    ENABLED.store(true, Ordering::Relaxed);
}

pub(crate) fn is_enabled() -> bool {
    ENABLED.load(Ordering::Relaxed)
}

/// The text, if payloads are logged.
pub(crate) fn if_enabled(text: &str) -> Option<&str> {
    is_enabled().then_some(text)
}

pub(crate) fn log_request(task: TaskId, request: &Request<'_>) {
    if is_enabled() {
        let messages = Value::from_iter(request.messages.iter().map(message)).to_string();
        tracing::info!(
            target: TARGET,
            { task.id = %task, gen_ai.system_instructions = request.system, gen_ai.input.messages = messages },
            "model request"
        );
    }
}

pub(crate) fn log_answer(task: TaskId, answer: &Answer) {
    if is_enabled() {
        let messages = json!([assistant(answer)]).to_string();
        tracing::info!(target: TARGET, { task.id = %task, gen_ai.output.messages = messages }, "model answer");
    }
}

pub(crate) fn log_tool_call(task: TaskId, call: &ToolUse, result: &ToolResult) {
    if is_enabled() {
        let arguments = arguments(call).to_string();
        tracing::info!(
            target: TARGET,
            {
                task.id = %task,
                gen_ai.tool.name = call.name,
                gen_ai.tool.call.id = call.id,
                gen_ai.tool.call.arguments = arguments,
                gen_ai.tool.call.result = result.content,
            },
            "tool call"
        );
    }
}

pub(crate) fn log_mcp_stderr(server: &str, line: &str) {
    if is_enabled() {
        tracing::info!(target: TARGET, { mcp.server = server }, "{server}: {line}");
    }
}

/// In the form of the OpenTelemetry GenAI conventions.
fn message(message: &Message<'_>) -> Value {
    match message {
        Message::User(text) => {
            json!({"role": "user", "parts": [{"type": "text", "content": text}]})
        }
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
        Arguments::Malformed(text) | Arguments::CutOff(text) => text.as_str().into(),
    }
}
