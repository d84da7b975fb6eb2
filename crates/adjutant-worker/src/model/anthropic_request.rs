use adjutant_agent::{Answer, Arguments, Block, Message, Request, ToolDefinition, ToolOutput, ToolUse};
use serde_json::{Value, json};

use super::Wire;
use super::parameters::{Offer, Parameters};

/// Marks of the conversation; with the system's and the tools' there are four, which is the most that is allowed.
const MARKED_MESSAGES: usize = 2;

/// The body of a request to `/v1/messages`.
pub(super) fn body(parameters: &Parameters, request: &Request<'_>, tools: &[ToolDefinition]) -> Value {
    let offer = Offer::of(request, tools);
    let mut body = parameters.body(&offer);
    if has_text(&request.system) {
        let mut system = text(&request.system);
        mark(&mut system);
        body.insert("system".to_owned(), json!([system]));
    }
    body.insert("messages".to_owned(), messages(request));
    if offer != Offer::Nothing {
        body.insert("tools".to_owned(), definitions(tools));
    }
    if offer == Offer::ToRead {
        body.insert("tool_choice".to_owned(), json!({"type": "none"}));
    }
    body.into()
}

/// Whatever comes before the mark is read from the provider's cache by the next call.
fn mark(block: &mut Value) {
    block["cache_control"] = json!({"type": "ephemeral"});
}

fn definitions(tools: &[ToolDefinition]) -> Value {
    let mut definitions: Vec<Value> = tools
        .iter()
        .map(|tool| {
            json!({"name": tool.name, "description": tool.description, "input_schema": tool.input_schema})
        })
        .collect();
    if definitions.is_empty() {
        // A conversation with calls is refused when no tool is defined; those it called may be gone by now.
        let description = "No tool is available any more.";
        definitions.push(json!({
            "name": "unavailable", "description": description, "input_schema": {"type": "object"},
        }));
    }
    if let Some(last) = definitions.last_mut() {
        mark(last);
    }
    definitions.into()
}

/// Those of the same side one after the other are one message: results of tools and the text that follows them, or the
/// texts before and after an answer that was empty.
fn messages(request: &Request<'_>) -> Value {
    let mut messages: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in &request.messages {
        let (role, blocks) = match message {
            Message::User(content) => ("user", vec![text(content)]),
            Message::Assistant(answer) => ("assistant", answered(answer)),
            Message::ToolResults(results) => ("user", results.iter().map(result).collect()),
        };
        match messages.last_mut() {
            Some((last, so_far)) if *last == role => so_far.extend(blocks),
            Some(_) | None if blocks.is_empty() => {}
            Some(_) | None => messages.push((role, blocks)),
        }
    }
    // The last of them was marked by the call before this one; only close to it would it be found without a mark.
    let asked = messages.iter_mut().rev().filter(|(role, _)| *role == "user");
    for (_, blocks) in asked.take(MARKED_MESSAGES) {
        if let Some(last) = blocks.last_mut() {
            mark(last);
        }
    }
    messages.into_iter().map(|(role, content)| json!({"role": role, "content": content})).collect()
}

/// Blank text is refused, and so is thinking that nothing follows.
fn answered(answer: &Answer) -> Vec<Value> {
    let mut blocks: Vec<Value> = answer.content.iter().filter_map(block).collect();
    while blocks.last().is_some_and(is_thinking) {
        blocks.pop();
    }
    blocks
}

fn block(block: &Block) -> Option<Value> {
    match block {
        Block::Text { text: content } => has_text(content).then(|| text(content)),
        Block::ToolUse(call) => Some(tool_use(call)),
        Block::Opaque { wire, value } => (wire == Wire::Anthropic.as_str()).then(|| value.clone()),
    }
}

fn tool_use(call: &ToolUse) -> Value {
    let input = match &call.arguments {
        Arguments::Json(input) if input.is_object() => input.clone(),
        // Nothing but objects is taken back.
        Arguments::Json(input) => json!({"malformed": input}),
        Arguments::Malformed(text) => json!({"malformed": text}),
    };
    json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input})
}

fn result(output: &ToolOutput<'_>) -> Value {
    let mut result = json!({"type": "tool_result", "tool_use_id": output.call});
    if has_text(&output.content) {
        result["content"] = output.content.as_ref().into();
    }
    if output.is_error {
        result["is_error"] = true.into();
    }
    result
}

/// Of white space it would be refused.
fn text(content: &str) -> Value {
    json!({"type": "text", "text": if has_text(content) { content } else { "(no text)" }})
}

fn has_text(content: &str) -> bool {
    !content.trim().is_empty()
}

fn is_thinking(block: &Value) -> bool {
    matches!(block["type"].as_str(), Some("thinking" | "redacted_thinking"))
}
