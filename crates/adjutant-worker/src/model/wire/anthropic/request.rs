use adjutant_agent::{Answer, Block, Message, Request, ToolDefinition, ToolOutput, ToolUse};
use serde_json::{Value, json};

use super::super::arguments_object;
use super::super::unknown_fields::send_back;
use crate::model::Wire;
use crate::model::parameters::{Parameters, ToolOffer};

/// Cache breakpoints in the conversation. With those of the system prompt and the tools there are
/// four, the most that the API allows.
const CACHED_MESSAGES: usize = 2;

/// The body of a request to `/v1/messages`.
pub(super) fn body(
    parameters: &Parameters,
    request: &Request<'_>,
    tools: &[ToolDefinition],
) -> Value {
    let offer = ToolOffer::of(request, tools);
    let mut body = parameters.body(request, &offer);
    if has_text(&request.system) {
        let mut system = text(&request.system);
        set_cache_breakpoint(&mut system);
        body.insert("system".to_owned(), json!([system]));
    }
    let messages = messages(request);
    if body.get("thinking").is_some_and(|thinking| thinking["type"] == "enabled")
        && !may_think(&messages)
    {
        body.remove("thinking");
    }
    body.insert("messages".to_owned(), messages);
    if offer != ToolOffer::None {
        body.insert("tools".to_owned(), definitions(tools));
    }
    if offer == ToolOffer::Referenced {
        body.insert("tool_choice".to_owned(), json!({"type": "none"}));
    }
    body.into()
}

/// The API refuses thinking if the first answer since the user's last text does not begin with it,
/// which that of a fallback does not.
fn may_think(messages: &Value) -> bool {
    let messages = messages.as_array().map_or(&[][..], Vec::as_slice);
    let has_text = |message: &Value| {
        let mut blocks = message["content"].as_array().into_iter().flatten();
        message["role"] == "user" && blocks.any(|block| block["type"] == "text")
    };
    let since = messages.iter().rposition(has_text).map_or(0, |place| place + 1);
    messages.get(since).is_none_or(|answer| is_thinking(&answer["content"][0]))
}

/// Sets a cache breakpoint: the next call reads everything before it from the provider's cache.
fn set_cache_breakpoint(block: &mut Value) {
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
        // The API rejects a conversation with tool calls if no tool is defined. The tools that it
        // called may be gone.
        let description = "No tool is available any more.";
        definitions.push(json!({
            "name": "unavailable", "description": description, "input_schema": {"type": "object"},
        }));
    }
    if let Some(last) = definitions.last_mut() {
        set_cache_breakpoint(last);
    }
    definitions.into()
}

/// Adjacent messages of the same role are one message: tool results and the text that follows them.
fn messages(request: &Request<'_>) -> Value {
    let mut messages: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in &request.messages {
        let (role, blocks) = match message {
            Message::User(content) => ("user", vec![text(content)]),
            Message::Assistant(answer) => ("assistant", assistant_blocks(answer)),
            Message::ToolResults(results) => ("user", results.iter().map(result).collect()),
        };
        match messages.last_mut() {
            Some((last, so_far)) if *last == role => so_far.extend(blocks),
            Some(_) | None => messages.push((role, blocks)),
        }
    }
    // The last but one had the breakpoint of the previous call. Setting it again ensures a cache
    // hit even if the conversation has grown by more blocks than the API looks back.
    let user_messages = messages.iter_mut().rev().filter(|(role, _)| *role == "user");
    for (_, blocks) in user_messages.take(CACHED_MESSAGES) {
        if let Some(last) = blocks.last_mut() {
            set_cache_breakpoint(last);
        }
    }
    messages.into_iter().map(|(role, content)| json!({"role": role, "content": content})).collect()
}

/// The API rejects blank text, and an assistant message that ends with thinking.
fn assistant_blocks(answer: &Answer) -> Vec<Value> {
    let mut blocks: Vec<Value> = answer.content.iter().filter_map(block).collect();
    if blocks.last().is_none_or(is_thinking) {
        blocks.push(text(""));
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
    let input = arguments_object(&call.arguments);
    let mut sent = json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input});
    let is_own = |wire: &str| wire == Wire::Anthropic.as_str();
    if let Some(extra) = call.extra.as_ref().filter(|extra| is_own(&extra.wire)) {
        send_back(&mut sent, &extra.fields);
    }
    sent
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

/// The API rejects text that is only white space.
fn text(content: &str) -> Value {
    json!({"type": "text", "text": if has_text(content) { content } else { "(no text)" }})
}

fn has_text(content: &str) -> bool {
    !content.trim().is_empty()
}

fn is_thinking(block: &Value) -> bool {
    matches!(block["type"].as_str(), Some("thinking" | "redacted_thinking"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_thinks_unless_its_turn_began_without_it() {
        let user = json!({"role": "user", "content": [text("Look.")]});
        let results =
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]});
        let answer = |first: Value| json!({"role": "assistant", "content": [first, {"type": "tool_use", "id": "a"}]});
        let thought = answer(json!({"type": "thinking", "thinking": "Hm.", "signature": "s"}));
        let of_another_model = answer(text("I look."));
        for (messages, may) in [
            (json!([user]), true),
            (json!([user, thought, results]), true),
            (json!([user, of_another_model, results]), false),
            (json!([user, of_another_model, results, thought, results]), false),
            (json!([user, of_another_model, user]), true),
        ] {
            assert_eq!(may_think(&messages), may, "{messages}");
        }
    }
}
