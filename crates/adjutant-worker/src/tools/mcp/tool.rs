use std::sync::Arc;

use adjutant_agent::{Replay, ToolDefinition};
use futures::future::BoxFuture;
use rmcp::model::{CallToolRequestParams, RequestMetaObject};
use serde_json::{Value, json};

use super::Server;
use crate::tools::{Limits, Tool, ToolCall};

/// Where a server that wants to recognize a repeated call finds its key.
const KEY: &str = "adjutant/idempotency-key";

/// One tool of a server.
pub(super) struct McpTool {
    server: Arc<Server>,
    /// Under the server's name for it.
    definition: ToolDefinition,
}

impl McpTool {
    pub(super) fn new(server: Arc<Server>, tool: rmcp::model::Tool) -> Self {
        let replay = server.config.replay.unwrap_or_else(|| hinted(&tool));
        let mut input_schema = tool.schema_as_json_value();
        // Vendors refuse the whole request for a schema that does not say so.
        input_schema["type"] = json!("object");
        let definition = ToolDefinition {
            name: tool.name.into_owned(),
            description: tool.description.map(|text| text.into_owned()).or(tool.title).unwrap_or_default(),
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

    fn call<'a>(&'a self, call: ToolCall<'a>) -> BoxFuture<'a, Result<String, String>> {
        let mut params = CallToolRequestParams::new(self.definition.name.clone());
        params.arguments = call.arguments.as_object().cloned();
        let mut meta = RequestMetaObject::new();
        meta.0.0.insert(KEY.to_owned(), Value::from(call.key));
        params.meta = Some(meta);
        Box::pin(self.server.call(params, self.definition.replay))
    }
}

/// A hint is believed: it comes from a server that the operator chose.
fn hinted(tool: &rmcp::model::Tool) -> Replay {
    let safe = tool
        .annotations
        .as_ref()
        .is_some_and(|hints| hints.read_only_hint.unwrap_or(false) || hints.is_idempotent());
    if safe { Replay::Safe } else { Replay::Unsafe }
}
