use adjutant_agent::{Answer, Arguments, Message, Request, ToolDefinition, ToolOutput, ToolUse};
use serde_json::{Value, json};

use super::parameters::{Offer, Parameters};

/// The body of a request to `/chat/completions`.
pub(super) fn body(parameters: &Parameters, request: &Request<'_>, tools: &[ToolDefinition]) -> Value {
    // Calls are understood without their tools here, so that tools which are gone are not missed.
    let offer = if tools.is_empty() { Offer::Nothing } else { Offer::of(request, tools) };
    let mut body = parameters.body(&offer);
    if body.get("stream") == Some(&Value::Bool(true)) {
        body.entry("stream_options").or_insert(json!({"include_usage": true}));
    } else {
        body.remove("stream_options");
    }
    let system = (!request.system.is_empty()).then(|| json!({"role": "system", "content": request.system}));
    body.insert(
        "messages".to_owned(),
        system.into_iter().chain(request.messages.iter().flat_map(messages)).collect(),
    );
    if offer != Offer::Nothing {
        body.insert("tools".to_owned(), tools.iter().map(definition).collect());
    }
    if offer == Offer::ToRead {
        body.insert("tool_choice".to_owned(), "none".into());
    }
    body.into()
}

fn definition(tool: &ToolDefinition) -> Value {
    json!({
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": tool.input_schema},
    })
}

fn messages(message: &Message<'_>) -> Vec<Value> {
    match message {
        Message::User(content) => vec![json!({"role": "user", "content": content})],
        Message::Assistant(answer) => vec![answered(answer)],
        Message::ToolResults(results) => results.iter().map(result).collect(),
    }
}

/// An empty answer stays: many chat templates want the sides to take turns.
fn answered(answer: &Answer) -> Value {
    let calls: Vec<Value> = answer.tool_uses().map(tool_call).collect();
    match answer.text() {
        Some(text) if calls.is_empty() => json!({"role": "assistant", "content": text}),
        None if calls.is_empty() => json!({"role": "assistant", "content": ""}),
        content => json!({"role": "assistant", "content": content, "tool_calls": calls}),
    }
}

/// Malformed arguments go back as they came.
fn tool_call(call: &ToolUse) -> Value {
    let arguments = match &call.arguments {
        Arguments::Json(input) => input.to_string(),
        Arguments::Malformed(text) => text.clone(),
    };
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}})
}

/// This wire has no mark for an error.
fn result(output: &ToolOutput<'_>) -> Value {
    let content =
        if output.is_error { format!("Error: {}", output.content) } else { output.content.to_string() };
    json!({"role": "tool", "tool_call_id": output.call, "content": content})
}
