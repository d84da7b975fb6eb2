//! Checks that the vendors' APIs make, so that a client that passes here is also accepted there.

use std::collections::HashSet;

use serde_json::Value;

use crate::model_request::Wire;

/// The most blocks with `cache_control` on the Anthropic wire.
const MAX_CACHE_MARKERS: usize = 4;

/// The reason why the vendor's API would answer 400, if it would.
pub(crate) fn vendor_error(wire: Wire, body: &Value) -> Option<String> {
    let messages = list(&body["messages"]);
    if messages.is_empty() {
        return Some("messages: at least one is required".to_owned());
    }
    match wire {
        Wire::OpenAi => openai(body, messages),
        Wire::Anthropic => anthropic(body, messages),
    }
}

fn openai(body: &Value, messages: &[Value]) -> Option<String> {
    if body["tools"].as_array().is_some_and(Vec::is_empty) {
        return Some("tools: an empty list is too short".to_owned());
    }
    let mut open: HashSet<&str> = HashSet::new();
    for (at, message) in messages.iter().enumerate() {
        if message["role"] == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            if !open.remove(id) {
                return Some(format!(
                    "messages[{at}]: a tool message answers no call {id:?} before it"
                ));
            }
            continue;
        }
        if let Some(id) = open.iter().next() {
            return Some(format!("messages[{at}]: tool call {id:?} has no tool message after it"));
        }
        if message["role"] != "assistant" {
            continue;
        }
        let calls = list(&message["tool_calls"]);
        if calls.is_empty() && message["content"].is_null() && message["refusal"].is_null() {
            return Some(format!("messages[{at}]: an assistant message has content or tool_calls"));
        }
        if !message["tool_calls"].is_null() && calls.is_empty() {
            return Some(format!("messages[{at}]: tool_calls: an empty list is too short"));
        }
        for call in calls {
            let id = call["id"].as_str().unwrap_or_default();
            if id.is_empty() || !call["function"]["arguments"].is_string() {
                return Some(format!(
                    "messages[{at}]: a tool call has an id, and its arguments are a text"
                ));
            }
            // Many servers parse them for the template of their model.
            let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
            if serde_json::from_str::<serde_json::Map<String, Value>>(arguments).is_err() {
                return Some(format!("messages[{at}]: the arguments of a call are not an object"));
            }
            open.insert(id);
        }
    }
    open.iter().next().map(|id| format!("messages: tool call {id:?} has no tool message after it"))
}

fn anthropic(body: &Value, messages: &[Value]) -> Option<String> {
    if body["max_tokens"].as_u64().is_none_or(|max| max == 0) {
        return Some("max_tokens: a positive number is required".to_owned());
    }
    if messages[0]["role"] != "user" {
        return Some("messages: the first one is the user's".to_owned());
    }
    let markers = cache_markers(body);
    if markers > MAX_CACHE_MARKERS {
        return Some(format!(
            "at most {MAX_CACHE_MARKERS} blocks may have cache_control, {markers} have it"
        ));
    }
    if list(&body["system"]).iter().any(is_empty_text) {
        return Some("system: text blocks are not empty".to_owned());
    }
    let mut open: HashSet<&str> = HashSet::new();
    for (at, message) in messages.iter().enumerate() {
        let blocks = list(&message["content"]);
        if blocks.is_empty() && message["content"].as_str().is_none_or(str::is_empty) {
            return Some(format!("messages.{at}: content is not empty"));
        }
        if blocks.iter().any(is_empty_text) {
            return Some(format!("messages.{at}: text blocks are not empty"));
        }
        for block in blocks.iter().filter(|block| block["type"] == "tool_result") {
            let id = block["tool_use_id"].as_str().unwrap_or_default();
            if !open.remove(id) {
                return Some(format!(
                    "messages.{at}: a tool_result for {id:?}, which the message before did not ask for"
                ));
            }
        }
        if let Some(id) = open.iter().next() {
            return Some(format!(
                "messages.{at}: tool_use {id:?} has no tool_result in the message after it"
            ));
        }
        for block in blocks.iter().filter(|block| block["type"] == "tool_use") {
            if !block["input"].is_object() {
                return Some(format!("messages.{at}: the input of a tool_use is an object"));
            }
            let id = block["id"].as_str().unwrap_or_default();
            if id.is_empty() || !open.insert(id) {
                return Some(format!("messages.{at}: each tool_use has an id of its own"));
            }
        }
    }
    open.iter().next().map(|id| format!("messages: tool_use {id:?} has no tool_result after it"))
}

fn is_empty_text(block: &Value) -> bool {
    block["type"] == "text" && block["text"].as_str().is_none_or(str::is_empty)
}

fn cache_markers(body: &Value) -> usize {
    let in_messages = list(&body["messages"]).iter().flat_map(|message| list(&message["content"]));
    let elsewhere = list(&body["system"]).iter().chain(list(&body["tools"]));
    in_messages.chain(elsewhere).filter(|block| !block["cache_control"].is_null()).count()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_openai_conversation_must_answer_each_tool_call() {
        let call =
            json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}});
        let user = json!({"role": "user", "content": "x"});
        let assistant = json!({"role": "assistant", "content": null, "tool_calls": [call]});
        let tool = json!({"role": "tool", "tool_call_id": "c", "content": "y"});
        let says = |messages: &[&Value]| {
            vendor_error(Wire::OpenAi, &json!({"model": "m", "messages": messages}))
        };
        assert_eq!(says(&[&user, &assistant, &tool]), None);
        assert!(says(&[&user, &assistant]).unwrap().contains("no tool message"));
        assert!(says(&[&user, &assistant, &user]).unwrap().contains("no tool message"));
        assert!(says(&[&user, &tool]).unwrap().contains("answers no call"));
        assert!(says(&[&user, &json!({"role": "assistant"})]).unwrap().contains("has content"));
        assert!(says(&[]).is_some());
    }

    #[test]
    fn an_anthropic_conversation_must_answer_each_tool_use_and_have_no_empty_text() {
        let user = json!({"role": "user", "content": [{"type": "text", "text": "x"}]});
        let assistant = json!({"role": "assistant", "content": [
            {"type": "tool_use", "id": "c", "name": "f", "input": {}}]});
        let result = json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "c", "content": "y"}]});
        let says = |messages: &[&Value]| {
            vendor_error(
                Wire::Anthropic,
                &json!({"model": "m", "max_tokens": 1, "messages": messages}),
            )
        };
        assert_eq!(says(&[&user, &assistant, &result]), None);
        assert!(says(&[&user, &assistant]).unwrap().contains("no tool_result"));
        assert!(says(&[&user, &assistant, &user]).unwrap().contains("no tool_result"));
        assert!(says(&[&user, &result]).unwrap().contains("did not ask for"));
        assert!(says(&[&assistant]).unwrap().contains("first one"));
        let empty = json!({"role": "user", "content": [{"type": "text", "text": ""}]});
        assert!(says(&[&empty]).unwrap().contains("not empty"));
        let marked = json!({"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}});
        let marked = json!({"role": "user", "content": vec![marked; 5]});
        assert!(says(&[&marked]).unwrap().contains("5 have it"));
        assert!(
            vendor_error(Wire::Anthropic, &json!({"messages": [user]}))
                .unwrap()
                .contains("max_tokens")
        );
    }
}
