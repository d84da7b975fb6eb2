use std::sync::Arc;

use adjutant_agent::{Replay, ToolDefinition};
use futures::future::BoxFuture;
use rmcp::model::{CallToolRequestParams, RequestMetaObject};
use serde_json::{Value, json};

use super::Server;
use crate::tools::{Limits, Tool, ToolCall};

/// The metadata field with the idempotency key of a call.
const KEY: &str = "adjutant/idempotency-key";

/// One tool of an MCP server.
pub(super) struct McpTool {
    server: Arc<Server>,
    /// With the name that the server uses.
    definition: ToolDefinition,
}

impl McpTool {
    pub(super) fn new(server: Arc<Server>, tool: rmcp::model::Tool) -> Self {
        let replay = server.config.replay.unwrap_or_else(|| annotated_replay(&tool));
        let mut input_schema = tool.schema_as_json_value();
        // Vendors reject the whole request if a schema does not have this type.
        input_schema["type"] = json!("object");
        let definition = ToolDefinition {
            name: tool.name.into_owned(),
            description: tool
                .description
                .map(|text| text.into_owned())
                .or(tool.title)
                .unwrap_or_default(),
            input_schema,
            replay,
        };
        Self { server, definition }
    }
}

impl Tool for McpTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn limits(&self) -> Limits {
        Limits { time: self.server.config.timeout, bytes: self.server.config.max_bytes }
    }

    fn tenants(&self) -> Option<&[String]> {
        self.server.config.tenants.as_deref()
    }

    fn call<'a>(&'a self, call: ToolCall<'a>) -> BoxFuture<'a, Result<String, String>> {
        let mut params = CallToolRequestParams::new(self.definition.name.clone());
        params.arguments = call.arguments.as_object().cloned();
        let mut meta = RequestMetaObject::new();
        meta.0.0.insert(KEY.to_owned(), Value::from(call.key));
        params.meta = Some(meta);
        Box::pin(self.server.call(params, self.definition.replay, call.kind))
    }
}

/// Trusts the annotations: the operator chose the server.
fn annotated_replay(tool: &rmcp::model::Tool) -> Replay {
    let safe = tool
        .annotations
        .as_ref()
        .is_some_and(|hints| hints.read_only_hint.unwrap_or(false) || hints.is_idempotent());
    if safe { Replay::Safe } else { Replay::Unsafe }
}
