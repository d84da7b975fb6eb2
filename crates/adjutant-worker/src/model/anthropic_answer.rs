use adjutant_agent::StopReason;
use serde_json::Value;

use super::CallError;
use super::draft::{Call, Content, Draft, Part};
use super::error::reported;
use super::price::Counts;

/// Adds one event of a stream. Unknown ones are ignored, as the vendor asks.
pub(super) fn event(draft: &mut Draft, event: &Value, deltas: &mut dyn FnMut(&str)) -> Result<(), CallError> {
    if let Some(error) = event.get("error") {
        return Err(reported(error));
    }
    match event["type"].as_str().unwrap_or_default() {
        "message_start" => message(draft, &event["message"]),
        "content_block_start" => start(draft, event["index"].as_u64(), &event["content_block"], deltas)?,
        "content_block_delta" => delta(draft, event["index"].as_u64(), &event["delta"], deltas)?,
        "message_delta" => {
            stop(draft, &event["delta"]);
            count(draft, &event["usage"]);
        }
        "message_stop" => draft.ended = true,
        _ => {}
    }
    Ok(())
}

/// Adds an answer that came in one piece.
pub(super) fn whole(
    draft: &mut Draft,
    answer: &Value,
    deltas: &mut dyn FnMut(&str),
) -> Result<(), CallError> {
    if let Some(error) = answer.get("error") {
        return Err(reported(error));
    }
    let Some(blocks) = answer["content"].as_array() else {
        return Err(CallError::fatal("an answer without content"));
    };
    message(draft, answer);
    for block in blocks {
        start(draft, None, block, deltas)?;
    }
    stop(draft, answer);
    draft.ended = true;
    Ok(())
}

fn message(draft: &mut Draft, message: &Value) {
    draft.begun = true;
    draft.id = message["id"].as_str().map(str::to_owned);
    draft.model = message["model"].as_str().map(str::to_owned);
    count(draft, &message["usage"]);
}

fn start(
    draft: &mut Draft,
    index: Option<u64>,
    block: &Value,
    deltas: &mut dyn FnMut(&str),
) -> Result<(), CallError> {
    let text_of = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
    let content = match block["type"].as_str() {
        Some("text") => {
            let text = text_of("text");
            if !text.is_empty() {
                deltas(&text);
            }
            Content::Text(text)
        }
        Some("tool_use") => {
            // In a stream there is an empty object here, and the arguments follow.
            let input = block["input"].as_object().is_some_and(serde_json::Map::is_empty);
            let arguments =
                if input || block["input"].is_null() { String::new() } else { block["input"].to_string() };
            Content::Call(Call { id: text_of("id"), name: text_of("name"), arguments })
        }
        Some(_) => Content::Opaque { value: block.clone(), input: String::new() },
        None => return Ok(()),
    };
    draft.make_room(block.to_string().len())?;
    draft.parts.push(Part { index, content });
    Ok(())
}

fn delta(
    draft: &mut Draft,
    index: Option<u64>,
    delta: &Value,
    deltas: &mut dyn FnMut(&str),
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
    draft.make_room(piece.len())?;
    let Some(part) = draft.parts.iter_mut().rfind(|part| part.index == index) else {
        return Err(CallError::passing("a stream with a part that did not begin"));
    };
    match (&mut part.content, name) {
        (Content::Text(text), "text") => {
            text.push_str(piece);
            if !piece.is_empty() {
                deltas(piece);
            }
        }
        (Content::Call(call), "partial_json") => call.arguments.push_str(piece),
        (Content::Opaque { input, .. }, "partial_json") => input.push_str(piece),
        (Content::Opaque { value, .. }, _) => {
            if let Some(Value::String(so_far)) = value.get_mut(name) {
                so_far.push_str(piece);
            } else {
                value[name] = piece.into();
            }
        }
        (Content::Text(_) | Content::Call(_), _) => {}
    }
    Ok(())
}

fn stop(draft: &mut Draft, delta: &Value) {
    draft.stop = match delta["stop_reason"].as_str() {
        None => return,
        Some("max_tokens" | "model_context_window_exceeded") => Some(StopReason::MaxTokens),
        Some("refusal") => Some(StopReason::Refusal),
        Some(_) => Some(StopReason::End),
    };
}

/// Later counts are of everything so far, but may leave out the input's. The cached input is counted apart here.
fn count(draft: &mut Draft, usage: &Value) {
    let of = |name: &str| usage[name].as_i64().filter(|count| *count >= 0);
    if let Some(input) = of("input_tokens") {
        let counts = draft.counts.get_or_insert_default();
        counts.cache_read = of("cache_read_input_tokens").unwrap_or(counts.cache_read);
        counts.cache_write = of("cache_creation_input_tokens").unwrap_or(counts.cache_write);
        counts.input = input.saturating_add(counts.cache_read).saturating_add(counts.cache_write);
    }
    if let Some(output) = of("output_tokens") {
        let counts: &mut Counts = draft.counts.get_or_insert_default();
        counts.output = output;
    }
}
