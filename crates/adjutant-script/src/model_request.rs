//! A model request, parsed into one form for both wires.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde::Serialize;
use serde_json::Value;

/// The two wires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Wire {
    /// Chat Completions, `POST /v1/chat/completions`.
    OpenAi,
    /// Messages, `POST /v1/messages`.
    Anthropic,
}

impl Wire {
    pub(crate) fn at(path: &str) -> Option<Self> {
        match path {
            "/v1/chat/completions" => Some(Self::OpenAi),
            "/v1/messages" => Some(Self::Anthropic),
            _ => None,
        }
    }
}

#[derive(Debug)]
pub(crate) struct ModelRequest {
    pub(crate) wire: Wire,
    pub(crate) model: String,
    pub(crate) system: String,
    /// The first user message.
    pub(crate) assignment: String,
    /// The text of all messages after the model's last answer.
    pub(crate) last: String,
    /// The tool results after the model's last answer, in the order of its calls.
    pub(crate) tool_results: Vec<String>,
    /// 1 plus the number of the model's answers in the request.
    pub(crate) turn: u32,
    /// A hash of the system prompt and the assignment: the same for all requests of a conversation.
    pub(crate) conversation: u64,
    /// A hash of the user messages since the model's last answer: it tells the call that repeats
    /// the request after an empty answer from the one before.
    pub(crate) question: u64,
    pub(crate) streams: bool,
    pub(crate) wants_usage: bool,
    /// The size of the body in bytes.
    pub(crate) size: usize,
}

/// The parts of a message that rules are matched against.
struct Message {
    role: Role,
    text: String,
    tool_results: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    System,
    User,
    Assistant,
}

impl ModelRequest {
    /// Fails for requests that the vendors' APIs refuse, too.
    pub(crate) fn parse(wire: Wire, body: &Value, size: usize) -> Result<Self, &'static str> {
        let model = body["model"].as_str().ok_or("model: a text is required")?;
        let messages = body["messages"].as_array().ok_or("messages: a list is required")?;
        let messages: Vec<Message> = messages.iter().map(message).collect::<Result<_, _>>()?;
        let system: String = match wire {
            Wire::Anthropic => text_of(&body["system"]),
            Wire::OpenAi => texts(&messages, Role::System).collect::<Vec<_>>().join("\n"),
        };
        let assignment = texts(&messages, Role::User).next().unwrap_or_default().to_owned();
        let answers = messages.iter().filter(|message| message.role == Role::Assistant).count();
        let since = messages
            .iter()
            .rposition(|message| message.role == Role::Assistant)
            .map_or(0, |at| at + 1);
        let last: Vec<&Message> =
            messages[since..].iter().filter(|message| message.role == Role::User).collect();
        let question: Vec<&str> = last
            .iter()
            .map(|message| message.text.as_str())
            .filter(|text| !text.is_empty())
            .collect();
        let parts = last
            .iter()
            .flat_map(|message| message.tool_results.iter().chain([&message.text]))
            .filter(|text| !text.is_empty());
        Ok(Self {
            wire,
            model: model.to_owned(),
            conversation: hash(&(&system, &assignment)),
            question: hash(&question),
            last: parts.map(String::as_str).collect::<Vec<_>>().join("\n"),
            tool_results: last.iter().flat_map(|message| message.tool_results.clone()).collect(),
            turn: u32::try_from(answers + 1).unwrap_or(u32::MAX),
            streams: body["stream"].as_bool().unwrap_or(false),
            wants_usage: body["stream_options"]["include_usage"].as_bool().unwrap_or(false),
            system,
            assignment,
            size,
        })
    }

    /// Fills in placeholders in one pass: a placeholder inside a value is left alone.
    pub(crate) fn fill(&self, template: &str) -> String {
        let mut filled = String::with_capacity(template.len());
        let mut rest = template;
        while let Some((before, after)) = rest.split_once('{') {
            filled.push_str(before);
            match after
                .split_once('}')
                .and_then(|(name, after)| Some((self.placeholder(name)?, after)))
            {
                Some((value, after)) => {
                    filled.push_str(&value);
                    rest = after;
                }
                None => {
                    filled.push('{');
                    rest = after;
                }
            }
        }
        filled + rest
    }

    fn placeholder(&self, name: &str) -> Option<String> {
        match name {
            "assignment" => Some(self.assignment.clone()),
            "last" => Some(self.last.clone()),
            "last_tool_result" => Some(self.tool_results.last().cloned().unwrap_or_default()),
            "model" => Some(self.model.clone()),
            "turn" => Some(self.turn.to_string()),
            _ => self.in_results(name.strip_prefix("results/")?),
        }
    }

    /// A value in a JSON tool result, by the index of the result and a path, such as
    /// `0/tasks/1/task_id`.
    fn in_results(&self, name: &str) -> Option<String> {
        let (index, path) = name.split_once('/')?;
        let result = self.tool_results.get(index.parse::<usize>().ok()?)?;
        let result: Value = serde_json::from_str(result).ok()?;
        let found = result.pointer(&format!("/{path}"))?;
        Some(found.as_str().map_or_else(|| found.to_string(), str::to_owned))
    }
}

fn texts(messages: &[Message], role: Role) -> impl Iterator<Item = &str> {
    messages.iter().filter(move |message| message.role == role).map(|message| message.text.as_str())
}

fn message(message: &Value) -> Result<Message, &'static str> {
    let content = &message["content"];
    let (role, text, tool_results) = match message["role"].as_str() {
        Some("system" | "developer") => (Role::System, text_of(content), vec![]),
        Some("user") => (Role::User, text_of(content), tool_results(content)),
        Some("assistant") => (Role::Assistant, text_of(content), vec![]),
        // Tool results count as user messages.
        Some("tool") => (Role::User, String::new(), vec![text_of(content)]),
        Some(_) | None => {
            return Err("messages: each has the role system, user, assistant or tool");
        }
    };
    Ok(Message { role, text, tool_results })
}

/// The text of a string, or of all text parts.
fn text_of(content: &Value) -> String {
    match content.as_array() {
        Some(parts) => {
            parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        None => content.as_str().unwrap_or_default().to_owned(),
    }
}

fn tool_results(content: &Value) -> Vec<String> {
    let parts = content.as_array().map(Vec::as_slice).unwrap_or_default();
    parts
        .iter()
        .filter(|part| part["type"] == "tool_result")
        .map(|part| text_of(&part["content"]))
        .collect()
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parsed(wire: Wire, body: Value) -> ModelRequest {
        ModelRequest::parse(wire, &body, 0).unwrap()
    }

    #[test]
    fn both_wires_give_the_same_conversation_turn_and_last_words() {
        let anthropic = parsed(
            Wire::Anthropic,
            json!({"model": "m", "max_tokens": 9, "system": [{"type": "text", "text": "You are x."}], "messages": [
                {"role": "user", "content": [{"type": "text", "text": "Find it"}]},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}},
                                                  {"type": "tool_use", "id": "b", "name": "f", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "one"},
                    {"type": "tool_result", "tool_use_id": "b", "content": [{"type": "text", "text": "two"}]}]},
            ]}),
        );
        let openai = parsed(
            Wire::OpenAi,
            json!({"model": "m", "messages": [
                {"role": "system", "content": "You are x."},
                {"role": "user", "content": "Find it"},
                {"role": "assistant", "content": null, "tool_calls": []},
                {"role": "tool", "tool_call_id": "a", "content": "one"},
                {"role": "tool", "tool_call_id": "b", "content": "two"},
            ]}),
        );
        for request in [&anthropic, &openai] {
            assert_eq!((request.turn, request.assignment.as_str()), (2, "Find it"));
            assert_eq!(
                (request.last.as_str(), request.fill("{last_tool_result}").as_str()),
                ("one\ntwo", "two")
            );
            assert_eq!(request.system, "You are x.");
        }
        assert_eq!(anthropic.conversation, openai.conversation);
    }

    #[test]
    fn placeholders_are_filled_in_once_and_other_braces_stay() {
        let request = parsed(
            Wire::OpenAi,
            json!({"model": "m", "messages": [{"role": "user", "content": "say {turn}"}]}),
        );
        assert_eq!(
            request.fill("{assignment} {x} {\"a\": {turn}} {"),
            "say {turn} {x} {\"a\": 1} {"
        );
    }

    #[test]
    fn a_value_of_a_result_is_found_by_its_way() {
        let request = parsed(
            Wire::OpenAi,
            json!({"model": "m", "messages": [
                {"role": "user", "content": "Find it"},
                {"role": "assistant", "content": null, "tool_calls": []},
                {"role": "tool", "tool_call_id": "a", "content": "{\"tasks\": [{\"id\": \"t_02\"}, {\"id\": 3}]}"},
                {"role": "tool", "tool_call_id": "b", "content": "two"},
            ]}),
        );
        assert_eq!(request.fill("{results/0/tasks/0/id}, {results/0/tasks/1/id}"), "t_02, 3");
        for nothing in ["{results/0/tasks/2/id}", "{results/1/x}", "{results/2/x}", "{results/x}"] {
            assert_eq!(request.fill(nothing), nothing);
        }
    }
}
