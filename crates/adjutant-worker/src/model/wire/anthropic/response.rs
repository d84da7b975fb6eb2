use adjutant_agent::StopReason;
use serde_json::Value;

use super::super::unknown_fields::{add_to_call, unknown_fields};
use crate::model::error::from_body;
use crate::model::partial_answer::{Content, Part, PartialAnswer, PartialToolCall};
use crate::model::price::TokenCounts;
use crate::model::{CallError, Wire};

/// Adds one event of a stream. Ignores unknown events, as the vendor asks clients to do.
pub(super) fn add_event(
    answer: &mut PartialAnswer,
    event: &Value,
    on_text: &mut dyn FnMut(&str),
) -> Result<(), CallError> {
    if let Some(error) = event.get("error") {
        return Err(from_body(error));
    }
    match event["type"].as_str().unwrap_or_default() {
        "message_start" => message(answer, &event["message"]),
        "content_block_start" => {
            start(answer, event["index"].as_u64(), &event["content_block"], on_text)?
        }
        "content_block_delta" => delta(answer, event["index"].as_u64(), &event["delta"], on_text)?,
        "message_delta" => {
            stop(answer, &event["delta"]);
            count(answer, &event["usage"]);
        }
        "message_stop" => answer.finished = true,
        _ => {}
    }
    Ok(())
}

/// Adds a response that was not streamed.
pub(super) fn add_whole(
    answer: &mut PartialAnswer,
    response: &Value,
    on_text: &mut dyn FnMut(&str),
) -> Result<(), CallError> {
    if let Some(error) = response.get("error") {
        return Err(from_body(error));
    }
    let Some(blocks) = response["content"].as_array() else {
        return Err(CallError::permanent("the answer has no content"));
    };
    message(answer, response);
    for block in blocks {
        start(answer, None, block, on_text)?;
    }
    stop(answer, response);
    answer.finished = true;
    Ok(())
}

fn message(answer: &mut PartialAnswer, message: &Value) {
    answer.started = true;
    answer.id = message["id"].as_str().map(str::to_owned);
    answer.model = message["model"].as_str().map(str::to_owned);
    count(answer, &message["usage"]);
}

fn start(
    answer: &mut PartialAnswer,
    index: Option<u64>,
    block: &Value,
    on_text: &mut dyn FnMut(&str),
) -> Result<(), CallError> {
    let text_of = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
    let content = match block["type"].as_str() {
        Some("text") => {
            let text = text_of("text");
            if !text.is_empty() {
                on_text(&text);
            }
            Content::Text(text)
        }
        Some("tool_use") => {
            // A stream has an empty object here, and the arguments follow.
            let input = block["input"].as_object().is_some_and(serde_json::Map::is_empty);
            let arguments = if input || block["input"].is_null() {
                String::new()
            } else {
                block["input"].to_string()
            };
            let (id, name) = (text_of("id"), text_of("name"));
            let mut call = PartialToolCall { id, name, arguments, extra: None };
            let extra = unknown_fields(block, &["type", "id", "name", "input"]);
            add_to_call(&mut call.extra, Wire::Anthropic, extra);
            Content::ToolCall(call)
        }
        Some(_) => Content::Opaque {
            wire: Wire::Anthropic.as_str(),
            value: block.clone(),
            input: String::new(),
        },
        None => return Ok(()),
    };
    answer.reserve(block.to_string().len())?;
    answer.parts.push(Part { index, content });
    Ok(())
}

fn delta(
    answer: &mut PartialAnswer,
    index: Option<u64>,
    delta: &Value,
    on_text: &mut dyn FnMut(&str),
) -> Result<(), CallError> {
    let kind = delta["type"].as_str().unwrap_or_default();
    let name = match kind {
        "text_delta" => "text",
        "input_json_delta" => "partial_json",
        "thinking_delta" => "thinking",
        "signature_delta" => "signature",
        _ => return Ok(()),
    };
    let piece = delta[name].as_str().unwrap_or_default();
    answer.reserve(piece.len())?;
    let Some(part) = answer.parts.iter_mut().rfind(|part| part.index == index) else {
        return Err(CallError::transient("the stream continues a part that did not start"));
    };
    match (&mut part.content, name) {
        (Content::Text(text), "text") => {
            text.push_str(piece);
            if !piece.is_empty() {
                on_text(piece);
            }
        }
        (Content::ToolCall(call), "partial_json") => call.arguments.push_str(piece),
        (Content::Opaque { input, .. }, "partial_json") => input.push_str(piece),
        (Content::Opaque { value, .. }, _) => {
            if let Some(Value::String(so_far)) = value.get_mut(name) {
                so_far.push_str(piece);
            } else {
                value[name] = piece.into();
            }
        }
        (Content::Text(_) | Content::ToolCall(_), _) => {}
    }
    Ok(())
}

fn stop(answer: &mut PartialAnswer, delta: &Value) {
    answer.stop = match delta["stop_reason"].as_str() {
        None => return,
        Some("max_tokens" | "model_context_window_exceeded") => Some(StopReason::MaxTokens),
        Some("refusal") => Some(StopReason::Refusal),
        Some(_) => Some(StopReason::End),
    };
}

/// Later counts include earlier ones, but may omit the input. This wire counts cached input
/// separately.
fn count(answer: &mut PartialAnswer, usage: &Value) {
    let of = |name: &str| usage[name].as_i64().filter(|count| *count >= 0);
    if let Some(input) = of("input_tokens") {
        let counts = answer.counts.get_or_insert_default();
        counts.cache_read = of("cache_read_input_tokens").unwrap_or(counts.cache_read);
        counts.cache_write = of("cache_creation_input_tokens").unwrap_or(counts.cache_write);
        counts.input = input.saturating_add(counts.cache_read).saturating_add(counts.cache_write);
    }
    if let Some(output) = of("output_tokens") {
        let counts: &mut TokenCounts = answer.counts.get_or_insert_default();
        counts.output = output;
    }
}
