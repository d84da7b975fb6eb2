use adjutant_agent::{Replay, ToolDefinition};
use serde_json::json;

use super::call::{
    FORM, MAX_ARTIFACT, MAX_ARTIFACTS, MAX_INSTRUCTIONS, Mode, PROMPT_KEY, PROMPT_NS,
    SNAPSHOT_VERSION,
};
use crate::task_handle::ABOUT_TASK_ID;

pub(super) const DISPATCH_SUBAGENT: &str = "dispatch_subagent";

pub(super) fn tool() -> ToolDefinition {
    ToolDefinition {
        name: DISPATCH_SUBAGENT.to_owned(),
        description: "Gives a piece of work to an isolated subagent with every tool that you have, waits for it, and returns its summary. It starts with a snapshot of the shared context and sees nothing of this conversation; what it changes there ends with it. Use it for a step of your plan that needs a deep look, or when this conversation grows long.".to_owned(),
        input_schema: json!({
            "type": "object",
            "properties": {
                "mode": {"type": "string", "enum": Mode::ALL.iter().map(|mode| mode.as_str()).collect::<Vec<_>>(), "description": "plan_step for a step of your plan, ad_hoc for anything else."},
                PROMPT_NS: {"type": "string", "minLength": 1, "description": "The namespace of the prompt that the subagent runs; the agent is called {prompt_ns}--{prompt_key}."},
                PROMPT_KEY: {"type": "string", "minLength": 1, "description": "The key of that prompt."},
                "instructions": {"type": "string", "minLength": 1, "description": format!("What it is to do, with all that it has to know: ASCII, at most {MAX_INSTRUCTIONS} characters.")},
                "expected_artifacts": {"type": ["array", "null"], "items": {"type": "string", "minLength": 1}, "maxItems": MAX_ARTIFACTS, "description": format!("What it is to deliver, each in ASCII and at most {MAX_ARTIFACT} characters.")},
                "plan_step_id": {"type": ["string", "null"], "description": "The step of your plan; required when mode is plan_step."},
                "snapshot_version": {"type": ["string", "null"], "description": format!("The form of snapshot that you count on; leave it out, or give {SNAPSHOT_VERSION:?}.")},
                "task_id": {"type": ["string", "null"], "description": ABOUT_TASK_ID},
            },
            "required": FORM.required,
            "additionalProperties": false,
        }),
        replay: Replay::Unsafe,
    }
}

/// For an orchestrator's system prompt: the prompts that it can dispatch, and how.
pub(super) fn orchestrator_prompt<'a>(agents: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let prompts: Vec<String> = agents
        .filter_map(|(name, description)| {
            let (ns, key) = name.split_once("--")?;
            Some(format!("  prompt_ns {ns:?}, prompt_key {key:?}: {description}\n"))
        })
        .collect();
    let list = if prompts.is_empty() {
        "No prompts are registered yet: dispatch_subagent has nothing to run.\n".to_owned()
    } else {
        format!("Prompts that you can run with dispatch_subagent:\n\n{}", prompts.concat())
    };
    format!("{list}{DISCIPLINE}")
}

const DISCIPLINE: &str = "
DO:
  - Use mode plan_step and give plan_step_id for a step of your plan; use ad_hoc for anything else.
  - Put everything that the subagent has to know into instructions. It sees a snapshot of the shared context, and nothing of this conversation.
  - Name the artifacts that you expect in expected_artifacts.
  - Read the findings in message_summary and artifacts. What the subagent writes to the shared context ends with it.
  - If an answer says that the subagent has not ended yet, call dispatch_subagent with the task_id of that answer to wait for it again.

Do NOT:
  - Dispatch what a single tool call of yours would do.
  - Give the same work to several subagents.
";
