//! The tools as clients see them: what models see of them everywhere, the session as one more argument, and what they answer.

use std::sync::{Arc, LazyLock};

use adjutant_agent::{SHARED_CONTEXT, SUBAGENT, ToolDefinition, shared_context_tool};
use adjutant_dialects::spec::subagent_tool;
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use super::super::openapi::tool_answers::properties_of;
use crate::Dialect;

static TOOLS: LazyLock<[Tool; 2]> = LazyLock::new(|| {
    let spec = |definition, answer, annotations| {
        let mut tool = tool(definition, annotations, Dialect::Spec);
        tool.output_schema = Some(object(answer));
        tool
    };
    [
        spec(subagent_tool(), answer(SUBAGENT), kind("Subagents").open_world(true)),
        spec(
            shared_context_tool(),
            answer(SHARED_CONTEXT),
            kind("Shared context").open_world(false),
        ),
    ]
});

/// Nothing that was stored is lost by any: what a task has said is kept when it is cancelled, and notes have a history.
fn kind(title: &str) -> ToolAnnotations {
    ToolAnnotations::with_title(title).read_only(false).destructive(false).idempotent(false)
}

/// The tools of a dialect. What the other sources' tools answer has no schema of ours.
pub(super) fn all(dialect: Dialect) -> Vec<Tool> {
    if dialect == Dialect::Spec {
        return TOOLS.to_vec();
    }
    let tools = dialect.tools().into_iter();
    tools.map(|definition| tool(definition, kind("Subagents").open_world(true), dialect)).collect()
}

fn tool(definition: ToolDefinition, annotations: ToolAnnotations, dialect: Dialect) -> Tool {
    let mut input = definition.input_schema;
    input["properties"][dialect.session_argument()] = json!({
        "type": "string",
        "description": "The session to work in: its agents, tasks and shared context. Yours if you name none. If an answer has a session_id, give it with every further call.",
    });
    let title = annotations.title.clone();
    let mut tool = Tool::new(definition.name, definition.description, object(input));
    tool.title = title;
    tool.annotations = Some(annotations);
    tool
}

fn object(schema: Value) -> Arc<JsonObject> {
    if let Value::Object(schema) = schema { Arc::new(schema) } else { Arc::default() }
}

/// One schema for the answers of all actions of a tool, and for refusals, which strict clients
/// validate too. No field is required: none is in all of them.
fn answer(tool: &str) -> Value {
    let mut schema = json!({"type": "object", "properties": properties_of(tool)});
    let text = |description: &str| json!({"type": "string", "description": description});
    for (name, field) in [
        ("session_id", text("The session, if you did not name one.")),
        ("error", text("Why it failed: of a call that is refused, a code; of a task, a sentence.")),
        ("message", text("Of a call that is refused: what to do about it.")),
    ] {
        schema["properties"][name] = field;
    }
    schema
}
