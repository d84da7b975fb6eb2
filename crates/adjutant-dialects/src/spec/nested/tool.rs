use adjutant_agent::{Replay, SUBAGENT, TextLimits, ToolDefinition};
use serde_json::{Map, Value, json};

use super::call::ACTIONS;
use crate::spec::subagent_tool;

const DESCRIPTION: &str = "Delegates parts of your task to other agents, which run on their own. See who there is (list_agents), spawn tasks or a batch of them, wait for them, and collect each result. An agent sees its own instructions and the task, not your conversation. You see only the tasks that you have spawned.
When to delegate: independent parts that can run side by side (batch them, then wait with mode all); reading that would fill your context, of which you need only the findings. When not to: what a single tool call of yours would do; your whole task.
How: write what an agent has to know to shared_context, and name the keys in the task. Use wait instead of asking for the status. Your answer ends your task: collect what you need before you give it.";

const ACTION: &str = "list_agents: who there is. spawn: starts a task and returns its task_id at once. batch: many spawns at once, all or none. status: how far a task is. wait: until tasks end, however long that takes. collect: the result of a task that has ended, once. read: a long result in pages. cancel: stops a task and all below it.";
const TIMEOUT: &str = "For spawn: the longest that the task may run, in seconds. For wait: how long to wait; until they end if you say nothing.";

/// The orchestrator's tool with the fields of the actions that agents may use.
pub fn actions_tool(limits: &TextLimits) -> ToolDefinition {
    let mut input_schema = subagent_tool(limits).input_schema;
    if let Some(properties) = input_schema["properties"].as_object_mut() {
        narrow(properties);
    }
    ToolDefinition {
        name: SUBAGENT.to_owned(),
        description: DESCRIPTION.to_owned(),
        input_schema,
        // A call of an agent is executed once in any case.
        replay: Replay::Safe,
    }
}

fn narrow(properties: &mut Map<String, Value>) {
    let forms = || ACTIONS.iter().flat_map(|action| action.forms());
    let is_used = |name: &str| {
        forms().any(|form| form.required.contains(&name) || form.optional.contains(&name))
    };
    let is_left_out = |name: &str| ["idempotency_key", "webhook"].contains(&name);
    properties.retain(|name, _| name == "action" || (is_used(name) && !is_left_out(name)));
    let tasks =
        properties.get_mut("tasks").and_then(|tasks| tasks["items"]["properties"].as_object_mut());
    if let Some(fields) = tasks {
        fields.remove("webhook");
    }
    let words: Vec<&str> = ACTIONS.iter().map(|action| action.as_str()).collect();
    properties.insert(
        "action".to_owned(),
        json!({ "type": "string", "enum": words, "description": ACTION }),
    );
    properties.insert("timeout_s".to_owned(), json!({ "type": "number", "description": TIMEOUT }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tool_has_the_fields_of_its_actions_and_no_other() {
        let tool = actions_tool(&TextLimits::DEFAULT);
        let properties = tool.input_schema["properties"].as_object().unwrap();
        for name in [
            "action",
            "agent",
            "task",
            "tasks",
            "depends_on",
            "task_ids",
            "mode",
            "timeout_s",
            "offset",
        ] {
            assert!(properties.contains_key(name), "{name}");
        }
        for name in ["name", "system_prompt", "extends", "replace", "idempotency_key", "webhook"] {
            assert!(!properties.contains_key(name), "{name}");
        }
        assert!(properties["tasks"]["items"]["properties"].get("webhook").is_none());
        assert_eq!(properties["action"]["enum"].as_array().unwrap().len(), ACTIONS.len());
        assert_eq!(tool.input_schema["required"], json!(["action"]));
    }
}
