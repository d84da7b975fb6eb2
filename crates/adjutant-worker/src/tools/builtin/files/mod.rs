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

use crate::tools::{FilesConfig, Tool, ToolCall};
use root::Root;

pub(super) fn tools(config: &FilesConfig) -> Result<Vec<Arc<dyn Tool>>, String> {
    let root = Arc::new(Root::new(&config.root, config.max_bytes)?);
    let tool = |name: &str, description: &str, input_schema: Value, run: Run| -> Arc<dyn Tool> {
        let definition = ToolDefinition {
            name: name.to_owned(),
            description: description.to_owned(),
            input_schema,
            replay: Replay::Safe,
        };
        Arc::new(FileTool { definition, root: root.clone(), run })
    };
    Ok(vec![
        tool("read_file", read::DESCRIPTION, read::input_schema(), read::read),
        tool("list_files", list::DESCRIPTION, list::input_schema(), list::list),
        tool("search_files", search::DESCRIPTION, search::input_schema(), search::search),
    ])
}

type Run = fn(&Root, &Value) -> Result<String, String>;

struct FileTool {
    definition: ToolDefinition,
    root: Arc<Root>,
    run: Run,
}

impl Tool for FileTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
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
