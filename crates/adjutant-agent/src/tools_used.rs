use crate::{AgentConfig, SUBAGENT, StoredTurn};

/// The names of the tools that a task has called, in the order of their first use. A call counts if
/// it has a result of any kind. Names that are not tools of the agent are ignored: the model made
/// them up.
pub fn tools_used(agent: &AgentConfig, turns: &[StoredTurn]) -> Vec<String> {
    let mut used: Vec<String> = Vec::new();
    for stored in turns {
        for call in stored.turn.answer.tool_uses() {
            let has_result = stored.tool_results.iter().any(|result| result.call == call.id);
            let delegates = agent.may_delegate && call.name == SUBAGENT;
            let is_known = delegates || agent.allowed_tools().any(|name| name == call.name);
            if has_result && is_known && !used.contains(&call.name) {
                used.push(call.name.clone());
            }
        }
    }
    used
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Answer, Arguments, Block, StopReason, ToolResult, ToolUse, Turn};

    /// A turn with these calls; those with a mark behind their name have no result.
    fn turn(number: i32, names: &[&str]) -> StoredTurn {
        let id = |place: usize| format!("c{place}");
        let calls = names.iter().enumerate().map(|(place, name)| {
            let name = name.trim_end_matches('?').to_owned();
            let arguments = Arguments::Json(json!({}));
            Block::ToolUse(ToolUse { id: id(place), name, arguments, extra: None })
        });
        let answer = Answer { content: calls.collect(), stop: StopReason::End };
        let results = names.iter().enumerate().filter(|(_, name)| !name.ends_with('?'));
        let result = |place| ToolResult {
            call: id(place),
            content: String::new(),
            is_error: place == 0,
            duration_ms: 0,
        };
        StoredTurn {
            number,
            attempt: 1,
            turn: Turn { answer, ..Turn::default() },
            tool_results: results.map(|(place, _)| result(place)).collect(),
        }
    }

    #[test]
    fn row_4_9_tools_are_told_once_and_in_the_order_of_their_first_use() {
        let tools = ["fetch", "lookup", "pay", "shared_context"].map(str::to_owned).to_vec();
        let agent = AgentConfig { tools, ..AgentConfig::default() };
        let turns = [
            turn(1, &["lookup", "fetch"]),
            turn(2, &["made_up", "lookup"]),
            turn(3, &["pay?", "shared_context"]),
        ];
        assert_eq!(tools_used(&agent, &turns), ["lookup", "fetch", "shared_context"]);
        assert_eq!(tools_used(&agent, &[]), [""; 0]);
        let turns = [turn(1, &["subagent", "pay"])];
        assert_eq!(tools_used(&agent, &turns), ["pay"], "it does not have that one");
        let head = AgentConfig { may_delegate: true, ..agent };
        assert_eq!(tools_used(&head, &turns), ["subagent", "pay"]);
    }
}
