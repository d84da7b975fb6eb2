use adjutant_agent::StopReason;
use serde_json::{Map, Value};

use super::super::unknown_fields::{add_to_call, merge_fields, unknown_fields};
use crate::model::error::from_body;
use crate::model::partial_answer::{Content, Part, PartialAnswer, PartialToolCall};
use crate::model::price::TokenCounts;
use crate::model::{CallError, Wire};

/// Fields of a message that are stored in another form, and those that no server needs back.
const KNOWN: &[&str] =
    &["role", "content", "refusal", "tool_calls", "function_call", "annotations", "audio"];

/// Adds one event of a stream.
pub(super) fn add_event(
    answer: &mut PartialAnswer,
    event: &Value,
    on_text: &mut dyn FnMut(&str),
) -> Result<(), CallError> {
    header(answer, event)?;
    let choices = event["choices"].as_array().into_iter().flatten();
    for choice in choices.filter(|choice| choice["index"].as_u64().unwrap_or(0) == 0) {
        add(answer, choice, on_text)?;
    }
    Ok(())
}

/// Adds a response that was not streamed.
pub(super) fn add_whole(
    answer: &mut PartialAnswer,
    response: &Value,
    on_text: &mut dyn FnMut(&str),
) -> Result<(), CallError> {
    header(answer, response)?;
    let Some(choice) = response["choices"].get(0) else {
        return Err(CallError::permanent("the answer has no choice"));
    };
    add(answer, choice, on_text)?;
    answer.finished = true;
    Ok(())
}

fn header(answer: &mut PartialAnswer, event: &Value) -> Result<(), CallError> {
    if let Some(error) = event.get("error").filter(|error| !error.is_null()) {
        return Err(from_body(error));
    }
    let text_of =
        |name: &str| event[name].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    answer.id = answer.id.take().or_else(|| text_of("id"));
    answer.model = answer.model.take().or_else(|| text_of("model"));
    count(answer, &event["usage"]);
    Ok(())
}

fn add(
    answer: &mut PartialAnswer,
    choice: &Value,
    on_text: &mut dyn FnMut(&str),
) -> Result<(), CallError> {
    answer.started = true;
    let message = if choice["delta"].is_object() { &choice["delta"] } else { &choice["message"] };
    text(answer, &message["content"], on_text)?;
    if message["refusal"].as_str().is_some_and(|refusal| !refusal.is_empty()) {
        text(answer, &message["refusal"], on_text)?;
        answer.stop = Some(StopReason::Refusal);
    }
    for piece in message["tool_calls"].as_array().into_iter().flatten() {
        tool_call(answer, piece)?;
    }
    keep(answer, unknown_fields(message, KNOWN))?;
    match choice["finish_reason"].as_str() {
        None | Some("") => {}
        Some("length") => answer.stop = Some(StopReason::MaxTokens),
        Some("content_filter") => answer.stop = Some(StopReason::Refusal),
        Some("error") => {
            return Err(CallError::transient("the server stopped in the middle of the answer"));
        }
        // An answer with a refusal has the usual finish reason.
        Some(_) => answer.stop = answer.stop.or(Some(StopReason::End)),
    }
    Ok(())
}

/// Content is a text, or a list of parts of which some are texts.
fn text(
    answer: &mut PartialAnswer,
    content: &Value,
    on_text: &mut dyn FnMut(&str),
) -> Result<(), CallError> {
    let parts = content.as_array().into_iter().flatten().filter_map(|part| part["text"].as_str());
    for piece in content.as_str().into_iter().chain(parts).filter(|piece| !piece.is_empty()) {
        answer.push_text(piece)?;
        on_text(piece);
    }
    Ok(())
}

/// Keeps fields of the message that Adjutant does not know, before its other parts.
fn keep(answer: &mut PartialAnswer, fields: Map<String, Value>) -> Result<(), CallError> {
    if fields.is_empty() {
        return Ok(());
    }
    answer.reserve(fields.values().map(|value| value.to_string().len()).sum())?;
    match answer.parts.first_mut() {
        Some(Part { content: Content::Opaque { value: Value::Object(so_far), .. }, .. }) => {
            merge_fields(so_far, fields);
        }
        Some(_) | None => {
            let (wire, input) = (Wire::OpenAi.as_str(), String::new());
            let content = Content::Opaque { wire, value: fields.into(), input };
            answer.parts.insert(0, Part { index: None, content });
        }
    }
    Ok(())
}

/// The fields of a call that Adjutant does not know.
fn unknown_of_call(piece: &Value) -> Map<String, Value> {
    let mut fields = unknown_fields(piece, &["index", "id", "type", "function"]);
    let function = unknown_fields(&piece["function"], &["name", "arguments"]);
    if !function.is_empty() {
        fields.insert("function".to_owned(), function.into());
    }
    fields
}

fn tool_call(answer: &mut PartialAnswer, piece: &Value) -> Result<(), CallError> {
    let function = &piece["function"];
    let index = piece["index"].as_u64();
    let id = piece["id"].as_str().unwrap_or_default();
    let name = function["name"].as_str().unwrap_or_default();
    let arguments = match &function["arguments"] {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        // Not documented, but unambiguous.
        other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            other.to_string()
        }
    };
    let extra = unknown_of_call(piece);
    let extra_bytes: usize = extra.values().map(|value| value.to_string().len()).sum();
    answer.reserve(id.len() + name.len() + arguments.len() + extra_bytes)?;
    if let Some(call) = continued_call(answer, index, id, name) {
        if call.id.is_empty() {
            id.clone_into(&mut call.id);
        }
        if call.name.is_empty() {
            name.clone_into(&mut call.name);
        }
        call.arguments.push_str(&arguments);
        add_to_call(&mut call.extra, Wire::OpenAi, extra);
    } else {
        let (id, name) = (id.to_owned(), name.to_owned());
        let mut call = PartialToolCall { id, name, arguments, extra: None };
        add_to_call(&mut call.extra, Wire::OpenAi, extra);
        answer.parts.push(Part { index, content: Content::ToolCall(call) });
    }
    Ok(())
}

/// The call that a piece continues, or `None` if it starts a call. Servers differ: some number no
/// call, some number all of them 0, some repeat id and name in every piece.
fn continued_call<'a>(
    answer: &'a mut PartialAnswer,
    index: Option<u64>,
    id: &str,
    name: &str,
) -> Option<&'a mut PartialToolCall> {
    let last = answer.parts.iter_mut().rev().find_map(|part| match &mut part.content {
        Content::ToolCall(call) if index.is_none() || part.index == index => Some(call),
        Content::ToolCall(_) | Content::Text(_) | Content::Opaque { .. } => None,
    })?;
    let is_same = !id.is_empty() && id == last.id;
    let is_other = !id.is_empty() && !last.id.is_empty() && !is_same;
    let is_done =
        || serde_json::from_str::<Value>(&last.arguments).is_ok_and(|input| input.is_object());
    let starts_call = !name.is_empty() && !is_same && (is_other || index.is_none() || is_done());
    (!starts_call).then_some(last)
}

/// This wire counts cached input as part of the prompt tokens.
fn count(answer: &mut PartialAnswer, usage: &Value) {
    if !usage.is_object() {
        return;
    }
    let count = |count: &Value| count.as_i64().unwrap_or(0).max(0);
    let details = &usage["prompt_tokens_details"];
    answer.counts = Some(TokenCounts {
        input: count(&usage["prompt_tokens"]),
        output: count(&usage["completion_tokens"]),
        cache_read: count(&details["cached_tokens"]),
        cache_write: count(&details["cache_write_tokens"]),
    });
}
