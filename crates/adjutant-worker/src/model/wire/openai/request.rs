use adjutant_agent::{Answer, Block, Message, Request, ToolDefinition, ToolOutput, ToolUse};
use serde_json::{Value, json};

use super::super::arguments_object;
use super::super::unknown_fields::send_back;
use crate::model::Wire;
use crate::model::parameters::{Parameters, ToolOffer};

/// The body of a request to `/chat/completions`.
pub(super) fn body(
    parameters: &Parameters,
    request: &Request<'_>,
    tools: &[ToolDefinition],
) -> Value {
    // This wire accepts tool calls in the conversation without definitions of their tools.
    let offer = if tools.is_empty() { ToolOffer::None } else { ToolOffer::of(request, tools) };
    let mut body = parameters.body(request, &offer);
    if body.get("stream") == Some(&Value::Bool(true)) {
        body.entry("stream_options").or_insert(json!({"include_usage": true}));
    } else {
        body.remove("stream_options");
    }
    let system =
        (!request.system.is_empty()).then(|| json!({"role": "system", "content": request.system}));
    body.insert(
        "messages".to_owned(),
        system.into_iter().chain(request.messages.iter().flat_map(messages)).collect(),
    );
    if offer != ToolOffer::None {
        body.insert("tools".to_owned(), tools.iter().map(definition).collect());
    }
    if offer == ToolOffer::Referenced {
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
        Message::Assistant(answer) => vec![assistant_message(answer)],
        Message::ToolResults(results) => results.iter().map(result).collect(),
    }
}

/// An empty answer is kept: many chat templates require alternating roles.
fn assistant_message(answer: &Answer) -> Value {
    let calls: Vec<Value> = answer.tool_uses().map(tool_call).collect();
    let mut message = match answer.text() {
        Some(text) if calls.is_empty() => json!({"role": "assistant", "content": text}),
        None if calls.is_empty() => json!({"role": "assistant", "content": ""}),
        content => json!({"role": "assistant", "content": content, "tool_calls": calls}),
    };
    for block in &answer.content {
        if let Block::Opaque { wire, value: Value::Object(fields) } = block
            && wire == Wire::OpenAi.as_str()
        {
            send_back(&mut message, fields);
        }
    }
    message
}

fn tool_call(call: &ToolUse) -> Value {
    let arguments = arguments_object(&call.arguments).to_string();
    let mut sent = json!({
        "id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments},
    });
    if let Some(extra) = call.extra.as_ref().filter(|extra| extra.wire == Wire::OpenAi.as_str()) {
        send_back(&mut sent, &extra.fields);
    }
    sent
}

/// This wire has no field for an error, so the text says so.
fn result(output: &ToolOutput<'_>) -> Value {
    let content = if output.is_error {
        format!("Error: {}", output.content)
    } else {
        output.content.to_string()
    };
    json!({"role": "tool", "tool_call_id": output.call, "content": content})
}
