use adjutant_agent::{Fields, Refusal, TaskNumber, text_in};
use serde_json::{Value, json};

use crate::task_number::task_number;

/// The argument with which a blocking tool waits again for the task of an earlier call.
pub(crate) const TASK_ID: &str = "task_id";

/// The MCP instructions of a server with one blocking tool.
pub(crate) const INSTRUCTIONS: &str = "Delegates work to agents that run on their own and survive restarts. A call waits for its task; one that takes longer than 45 seconds answers with a task_id, and the same tool, called with it, goes on waiting. Delegate what takes several steps or would fill your context; do yourself what a single tool call does.";

pub(crate) const ABOUT_TASK_ID: &str = "Only to wait again: the task_id of an answer that said that the work goes on. The other fields do not count then.";

/// The task that a call waits for again, if it names one. Its other fields are ignored then:
/// clients that validate arguments against the schema have to fill in the required ones.
pub(crate) fn task_to_wait_for(fields: &mut Fields) -> Result<Option<TaskNumber>, Refusal> {
    let Some(value) = fields.take(TASK_ID) else { return Ok(None) };
    task_number(TASK_ID, text_in(TASK_ID, value)?).map(Some)
}

/// How to wait again, for the model that reads the answer. `required` are the arguments without
/// which the tool's schema refuses a call; they are ignored when there is a `task_id`.
pub(crate) fn how_to_wait_again(tool: &str, task: TaskNumber, required: Value) -> String {
    let mut arguments = required;
    arguments[TASK_ID] = json!(task.to_string());
    format!("It goes on as task {task}. Call {tool} with {arguments} to wait for it again.")
}

#[cfg(test)]
pub(crate) mod tests {
    use adjutant_agent::ToolDefinition;

    use super::*;

    /// The arguments that an answer tells its reader to call the tool with, which a client that
    /// validates them against the tool's schema accepts.
    #[track_caller]
    pub(crate) fn arguments_in(answer: &str, tool: &ToolDefinition) -> Value {
        let start = format!("Call {} with ", tool.name);
        let (_, rest) = answer.split_once(&start).expect(answer);
        let (arguments, _) = rest.split_once(" to wait for it again.").expect(answer);
        let arguments: Value = serde_json::from_str(arguments).expect(arguments);
        let schema = &tool.input_schema;
        for name in schema["required"].as_array().unwrap() {
            let name = name.as_str().unwrap();
            assert!(arguments.get(name).is_some(), "{name} is required: {arguments}");
        }
        for (name, value) in arguments.as_object().unwrap() {
            let field = &schema["properties"][name];
            let text = value.as_str().unwrap_or_else(|| panic!("{name}: {arguments}"));
            let types = [&json!("string"), &json!(["string", "null"])];
            assert!(types.contains(&&field["type"]), "{name}: {field}");
            assert!(text.len() >= usize::from(field.get("minLength").is_some()), "{name}: {field}");
            let words = field["enum"].as_array();
            assert!(words.is_none_or(|words| words.contains(value)), "{name}: {field}");
        }
        arguments
    }
}
