use adjutant_agent::{Replay, ToolDefinition};
use serde_json::json;

use crate::task_handle::ABOUT_TASK_ID;

pub(super) const AGENT_TOOL: &str = "AgentTool";

/// For an orchestrator's system prompt.
pub(super) const PROMPT: &str = "You can give subtasks to sub-agents with AgentTool.

DO:
  - Use it for searches and investigations whose steps you do not need to see: you get only the last text of the sub-agent.
  - Put everything that the sub-agent has to know into prompt. It sees nothing of this conversation.
  - Limit its tools with tool_allowlist when the subtask needs only a few. Without it, the sub-agent has all of your tools except AgentTool.
  - If an answer says that the sub-agent has not ended yet, call AgentTool with the task_id of that answer to wait for it again.

Do NOT:
  - Delegate what a single tool call of yours would do.
  - Give the same work to several sub-agents.
  - Ask for a long text: an answer of more than 5000 characters is cut.
";

pub(super) fn tool() -> ToolDefinition {
    ToolDefinition {
        name: AGENT_TOOL.to_owned(),
        description: "Gives a subtask to a sub-agent with a context of its own, waits for it, and returns its last text. It sees your prompt and nothing of this conversation. Use it for searches and investigations whose steps you do not need to see.".to_owned(),
        input_schema: json!({
            "type": "object",
            "properties": {
                "prompt": {"type": "string", "description": "What the sub-agent is to do, with all that it has to know."},
                "tool_allowlist": {"type": ["array", "null"], "items": {"type": "string"}, "description": "The tools that it may use; all of yours but this one if you name none."},
                "model": {"type": ["string", "null"], "description": "The model that it uses; yours if you name none."},
                "task_id": {"type": ["string", "null"], "description": ABOUT_TASK_ID},
            },
            "required": ["prompt"],
            "additionalProperties": false,
        }),
        replay: Replay::Unsafe,
    }
}
