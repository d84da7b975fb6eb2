//! One line for each tool call: who, what, how it went. Never what was said.

use std::time::Duration;

use adjutant_agent::{ErrorCode, check_agent_name};
use serde_json::Value;

use crate::ToolCall;

/// What a line says of a call; only names and numbers that cannot be a text of a task.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    tool: String,
    action: Option<String>,
    task: Option<String>,
    agent: Option<String>,
}

impl Asked {
    pub(super) fn of(call: &ToolCall) -> Self {
        let text = |name: &str| call.arguments.get(name).and_then(Value::as_str);
        Self {
            tool: if is_word(&call.tool) { call.tool.clone() } else { "?".to_owned() },
            action: text("action").filter(|action| is_word(action)).map(str::to_owned),
            task: text("task_id").filter(|task| is_word(task)).map(str::to_owned),
            agent: text("agent").filter(|agent| check_agent_name(agent).is_ok()).map(str::to_owned),
        }
    }

    pub(super) fn is_status(&self) -> bool {
        self.action.as_deref() == Some("status")
    }

    pub(super) fn tell(&self, session: &str, answer: Result<&Value, ErrorCode>, took: Duration) {
        let field = |name: &str| answer.ok().and_then(|answer| answer.get(name));
        let text = |name: &str| field(name).and_then(Value::as_str);
        let action = self.action.as_deref().unwrap_or("?");
        let status = match answer {
            Ok(_) => text("status").unwrap_or("ok"),
            Err(code) => code.as_str(),
        };
        let turns = field("turns_used").filter(|_| action == "collect").and_then(Value::as_i64);
        tracing::info!(
            action,
            tool.name = self.tool,
            session.id = session,
            task.id = text("id"),
            task.number = text("task_id").or(self.task.as_deref()),
            agent.name = text("agent").or(self.agent.as_deref()),
            status,
            turns_used = turns,
            duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            "{} {action} in {session}: {status}",
            self.tool
        );
    }
}

/// Short, and of letters that names are made of: whoever puts a text where a name belongs does not find it in the log.
fn is_word(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asked(tool: &str, arguments: Value) -> Asked {
        Asked::of(&ToolCall { tool: tool.to_owned(), arguments, idempotency_key: None, traceparent: None })
    }

    #[test]
    fn names_are_told_and_texts_are_not() {
        let spawn = asked("subagent", json!({"action": "spawn", "agent": "writer", "task": "the secret"}));
        let expected = Asked {
            tool: "subagent".to_owned(),
            action: Some("spawn".to_owned()),
            agent: Some("writer".to_owned()),
            task: None,
        };
        assert_eq!(spawn, expected);
        let odd =
            asked("a secret", json!({"action": "a secret", "agent": "A secret", "task_id": "a secret"}));
        assert_eq!(odd, Asked { tool: "?".to_owned(), ..Asked::default() });
    }
}
