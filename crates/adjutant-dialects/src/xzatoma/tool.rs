use adjutant_agent::{Replay, SUBAGENT, ToolDefinition};
use serde_json::json;

use super::call::MAX_TURNS;
use crate::task_handle::{ABOUT_TASK_ID, TASK_ID};

/// For an orchestrator's system prompt.
pub(super) const PROMPT: &str = "You can give focused tasks to subagents with the subagent tool.

DO:
  - Use it to look into a part of a problem without filling this conversation: you get only the summary of the subagent.
  - Put everything that the subagent has to know into task_prompt. It sees nothing of this conversation.
  - Say in summary_prompt how it is to sum up its findings.
  - Limit its tools with allowed_tools when the task needs only a few, and its turns with max_turns.
  - If an answer says that the subagent has not ended yet, call subagent with the task_id of that answer to wait for it again.

Do NOT:
  - Delegate what a single tool call of yours would do.
  - Give the same work to several subagents.
";

/// The tool of an agent that delegates further. It waits as long as its child runs, so it has no
/// `task_id` argument.
pub(super) fn nested_tool() -> ToolDefinition {
    let mut tool = tool();
    if let Some(properties) = tool.input_schema["properties"].as_object_mut() {
        properties.remove(TASK_ID);
    }
    tool
}

pub(super) fn tool() -> ToolDefinition {
    ToolDefinition {
        name: SUBAGENT.to_owned(),
        description: "Gives a focused task to an agent with a conversation of its own, waits for it, and returns its summary. Use it to look into a part of a problem without filling this conversation.".to_owned(),
        input_schema: json!({
            "type": "object",
            "properties": {
                "label": {"type": "string", "minLength": 1, "description": "A name to recognise this subagent by."},
                "task_prompt": {"type": "string", "minLength": 1, "description": "What it is to do, with all that it has to know."},
                "summary_prompt": {"type": ["string", "null"], "description": "How it is to sum up what it found; that is what you get."},
                "allowed_tools": {"type": ["array", "null"], "items": {"type": "string"}, "description": "The tools that it may use; all of yours but this one if you name none."},
                "max_turns": {"type": ["integer", "null"], "minimum": MAX_TURNS.start(), "maximum": MAX_TURNS.end(), "description": "How many turns it may take."},
                "task_id": {"type": ["string", "null"], "description": ABOUT_TASK_ID},
            },
            "required": ["label", "task_prompt"],
            "additionalProperties": false,
        }),
        replay: Replay::Unsafe,
    }
}
