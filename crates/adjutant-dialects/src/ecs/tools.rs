use adjutant_agent::{Replay, SUBAGENT, ToolDefinition};
use serde_json::{Value, json};

use super::call::{CANCEL, RESULT, STATUS, WAIT};

/// The agents that exist are listed in the orchestrator's prompt.
const CATEGORY: &str = "Who is asked: the name of a registered subagent. Where the operator allows it, any other name of a-z, 0-9, _ and - makes one up.";

/// The five tools.
pub fn tools() -> Vec<ToolDefinition> {
    let session =
        json!({"type": "string", "description": "The session_id that subagent answered with."});
    let seconds =
        |description: &str| json!({"type": ["number", "null"], "description": description});
    let launch = json!({
        "category": {"type": "string", "description": CATEGORY},
        "prompt": {"type": "string", "description": "What is to be done. The subagent sees nothing else of this conversation: say what it has to know, and what the answer should be like."},
        "load_skills": {"type": ["array", "null"], "items": {"type": "string"}, "description": "Skills that it gets beside its own."},
        "background": {"type": ["boolean", "null"], "default": false, "description": "Answer at once with a session_id, and let it work beside you."},
        "timeout": seconds("How long it may work, in seconds."),
        "stream": {"type": ["boolean", "null"], "description": "Changes nothing: what it says can always be followed on the event stream."},
    });
    let read = json!({
        "session_id": session,
        "read_method": {"type": ["string", "null"], "enum": ["full", "summary", null], "default": "full", "description": "summary is the short form, where the subagent gave one."},
        "timeout": seconds("How long to wait for the end, in seconds."),
    });
    let ids = json!({"type": ["array", "null"], "items": {"type": "string"}, "description": "The sessions to wait for; any, if there are none."});
    vec![
        tool(
            SUBAGENT,
            "Gives a task to a subagent. Waits for its answer, or with background lets it work beside you; then use subagent_wait and subagent_result.",
            launch,
            &["category", "prompt"],
        ),
        tool(
            STATUS,
            "Says how a background session stands; without session_id, how all stand.",
            json!({"session_id": session}),
            &[],
        ),
        tool(
            RESULT,
            "Reads the result of a background session, and waits for it if need be. It can be read again.",
            read,
            &["session_id"],
        ),
        tool(
            WAIT,
            "Waits until background sessions have ended that you have not been told of, and names them.",
            json!({"session_ids": ids, "timeout": seconds("How long to wait, in seconds.")}),
            &[],
        ),
        tool(
            CANCEL,
            "Stops a background session.",
            json!({"session_id": session}),
            &["session_id"],
        ),
    ]
}

fn tool(name: &str, description: &str, properties: Value, required: &[&str]) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        description: description.to_owned(),
        input_schema: json!({
            "type": "object", "properties": properties, "required": required, "additionalProperties": false,
        }),
        replay: Replay::Unsafe,
    }
}
