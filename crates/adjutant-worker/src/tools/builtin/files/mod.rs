//! `read_file`, `list_files` and `search_files`, below one root folder.

mod list;
mod pattern;
mod read;
mod root;
mod search;
mod walk;

use std::sync::Arc;

use adjutant_agent::{Replay, ToolDefinition};
use futures::future::BoxFuture;
use serde_json::Value;

use crate::tools::http_client::HttpClients;
use crate::tools::{Tool, ToolCall, ToolConfigError, ToolsConfig};
use root::Root;

pub(super) const READ_FILE: &str = "read_file";
pub(super) const LIST_FILES: &str = "list_files";
pub(super) const SEARCH_FILES: &str = "search_files";

type NewTool = Result<Option<Arc<dyn Tool>>, ToolConfigError>;

pub(super) fn read_file(config: &ToolsConfig, _: &HttpClients) -> NewTool {
    let (description, input_schema) = (read::DESCRIPTION, read::input_schema());
    file_tool(config, definition(READ_FILE, description, input_schema), read::read)
}

pub(super) fn list_files(config: &ToolsConfig, _: &HttpClients) -> NewTool {
    let (description, input_schema) = (list::DESCRIPTION, list::input_schema());
    file_tool(config, definition(LIST_FILES, description, input_schema), list::list)
}

pub(super) fn search_files(config: &ToolsConfig, _: &HttpClients) -> NewTool {
    let (description, input_schema) = (search::DESCRIPTION, search::input_schema());
    file_tool(config, definition(SEARCH_FILES, description, input_schema), search::search)
}

fn definition(name: &str, description: &str, input_schema: Value) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        description: description.to_owned(),
        input_schema,
        replay: Replay::Safe,
    }
}

fn file_tool(config: &ToolsConfig, definition: ToolDefinition, run: Run) -> NewTool {
    let Some(config) = &config.files else { return Ok(None) };
    let root = Root::new(&config.root, config.max_bytes)
        .map_err(|why| ToolConfigError::new("files.root", why))?;
    let tenants = config.tenants.clone();
    Ok(Some(Arc::new(FileTool { definition, root: Arc::new(root), run, tenants })))
}

type Run = fn(&Root, &Value) -> Result<String, String>;

struct FileTool {
    definition: ToolDefinition,
    root: Arc<Root>,
    run: Run,
    tenants: Option<Vec<String>>,
}

impl Tool for FileTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn tenants(&self) -> Option<&[String]> {
        self.tenants.as_deref()
    }

    fn call<'a>(&'a self, call: ToolCall<'a>) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(async move {
            let (root, run, arguments) = (self.root.clone(), self.run, call.arguments.clone());
            match tokio::task::spawn_blocking(move || run(&root, &arguments)).await {
                Ok(answer) => answer,
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(_) => Err("The worker is shutting down.".to_owned()),
                },
            }
        })
    }
}
