//! The tool definitions for MCP clients: those of the dialect, with the session as one more
//! argument and with output schemas.

use std::sync::Arc;

use adjutant_agent::{SHARED_CONTEXT, SUBAGENT, TextLimits, ToolDefinition, shared_context_tool};
use adjutant_dialects::spec::subagent_tool;
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use super::super::Shared;
use super::super::openapi::tool_answers::properties_of;
use crate::Dialect;

/// The tools of `spec`, the only ones with an output schema.
fn of_spec(limits: &TextLimits) -> [Tool; 2] {
    let spec = |definition, output_schema, annotations| {
        let mut tool = tool(definition, annotations, Dialect::Spec);
        tool.output_schema = Some(object(output_schema));
        tool
    };
    [
        spec(
            subagent_tool(limits),
            output_schema(SUBAGENT),
            annotations("Subagents").open_world(true),
        ),
        spec(
            shared_context_tool(limits),
            output_schema(SHARED_CONTEXT),
            annotations("Shared context").open_world(false),
        ),
    ]
}

/// No tool is destructive: a cancelled task keeps its partial result, and notes have a history.
fn annotations(title: &str) -> ToolAnnotations {
    ToolAnnotations::with_title(title).read_only(false).destructive(false).idempotent(false)
}

/// The tools of a dialect.
pub(super) fn all(dialect: Dialect, shared: &Shared) -> Vec<Tool> {
    let limits = shared.service.texts();
    if dialect == Dialect::Spec {
        return shared.mcp_tools.get_or_init(|| of_spec(limits)).to_vec();
    }
    let tools = dialect.tools(limits).into_iter();
    tools
        .map(|definition| tool(definition, annotations("Subagents").open_world(true), dialect))
        .collect()
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
/// validate too. No field is required, because no field is in every answer.
fn output_schema(tool: &str) -> Value {
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
