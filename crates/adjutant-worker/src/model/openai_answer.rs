use adjutant_agent::StopReason;
use serde_json::Value;

use super::CallError;
use super::draft::{Call, Content, Draft, Part};
use super::error::reported;
use super::price::Counts;

/// Adds one event of a stream.
pub(super) fn event(draft: &mut Draft, event: &Value, deltas: &mut dyn FnMut(&str)) -> Result<(), CallError> {
    header(draft, event)?;
    let choices = event["choices"].as_array().into_iter().flatten();
    for choice in choices.filter(|choice| choice["index"].as_u64().unwrap_or(0) == 0) {
        add(draft, choice, deltas)?;
    }
    Ok(())
}

/// Adds an answer that came in one piece.
pub(super) fn whole(
    draft: &mut Draft,
    answer: &Value,
    deltas: &mut dyn FnMut(&str),
) -> Result<(), CallError> {
    header(draft, answer)?;
    let Some(choice) = answer["choices"].get(0) else {
        return Err(CallError::fatal("an answer without a choice"));
    };
    add(draft, choice, deltas)?;
    draft.ended = true;
    Ok(())
}

fn header(draft: &mut Draft, event: &Value) -> Result<(), CallError> {
    if let Some(error) = event.get("error").filter(|error| !error.is_null()) {
        return Err(reported(error));
    }
    let text_of = |name: &str| event[name].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    draft.id = draft.id.take().or_else(|| text_of("id"));
    draft.model = draft.model.take().or_else(|| text_of("model"));
    count(draft, &event["usage"]);
    Ok(())
}

fn add(draft: &mut Draft, choice: &Value, deltas: &mut dyn FnMut(&str)) -> Result<(), CallError> {
    draft.begun = true;
    let message = if choice["delta"].is_object() { &choice["delta"] } else { &choice["message"] };
    text(draft, &message["content"], deltas)?;
    if message["refusal"].as_str().is_some_and(|refusal| !refusal.is_empty()) {
        text(draft, &message["refusal"], deltas)?;
        draft.stop = Some(StopReason::Refusal);
    }
    for piece in message["tool_calls"].as_array().into_iter().flatten() {
        tool_call(draft, piece)?;
    }
    match choice["finish_reason"].as_str() {
        None | Some("") => {}
        Some("length") => draft.stop = Some(StopReason::MaxTokens),
        Some("content_filter") => draft.stop = Some(StopReason::Refusal),
        Some("error") => return Err(CallError::passing("the server gave up in the middle of the answer")),
        // A refusal ends like any other answer.
        Some(_) => draft.stop = draft.stop.or(Some(StopReason::End)),
    }
    Ok(())
}

/// Text, or a list of parts some of which are text.
fn text(draft: &mut Draft, content: &Value, deltas: &mut dyn FnMut(&str)) -> Result<(), CallError> {
    let parts = content.as_array().into_iter().flatten().filter_map(|part| part["text"].as_str());
    for piece in content.as_str().into_iter().chain(parts).filter(|piece| !piece.is_empty()) {
        draft.push_text(piece)?;
        deltas(piece);
    }
    Ok(())
}

fn tool_call(draft: &mut Draft, piece: &Value) -> Result<(), CallError> {
    let function = &piece["function"];
    let index = piece["index"].as_u64();
    let id = piece["id"].as_str().unwrap_or_default();
    let name = function["name"].as_str().unwrap_or_default();
    let arguments = match &function["arguments"] {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        // Not what is documented, but what it means is clear.
        other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => other.to_string(),
    };
    draft.make_room(id.len() + name.len() + arguments.len())?;
    if let Some(call) = going_on(draft, index, id, name) {
        if call.id.is_empty() {
            id.clone_into(&mut call.id);
        }
        if call.name.is_empty() {
            name.clone_into(&mut call.name);
        }
        call.arguments.push_str(&arguments);
    } else {
        let call = Call { id: id.to_owned(), name: name.to_owned(), arguments };
        draft.parts.push(Part { index, content: Content::Call(call) });
    }
    Ok(())
}

/// The call that a piece goes on with, if it does not begin another. Servers differ: some number no call, some number all
/// of them 0, some repeat id and name in every piece.
fn going_on<'a>(draft: &'a mut Draft, index: Option<u64>, id: &str, name: &str) -> Option<&'a mut Call> {
    let last = draft.parts.iter_mut().rev().find_map(|part| match &mut part.content {
        Content::Call(call) if index.is_none() || part.index == index => Some(call),
        Content::Call(_) | Content::Text(_) | Content::Opaque { .. } => None,
    })?;
    let is_same = !id.is_empty() && id == last.id;
    let is_other = !id.is_empty() && !last.id.is_empty() && !is_same;
    let is_done = || serde_json::from_str::<Value>(&last.arguments).is_ok_and(|input| input.is_object());
    let begins = !name.is_empty() && !is_same && (is_other || index.is_none() || is_done());
    (!begins).then_some(last)
}

/// The cached input is part of the prompt's tokens here.
fn count(draft: &mut Draft, usage: &Value) {
    if !usage.is_object() {
        return;
    }
    let count = |count: &Value| count.as_i64().unwrap_or(0).max(0);
    let details = &usage["prompt_tokens_details"];
    draft.counts = Some(Counts {
        input: count(&usage["prompt_tokens"]),
        output: count(&usage["completion_tokens"]),
        cache_read: count(&details["cached_tokens"]),
        cache_write: count(&details["cache_write_tokens"]),
    });
}
