//! The tools against real servers, files and processes.

mod config;
mod fetch;
mod files;
mod http;
mod mcp;
mod toolbox;

use std::net::SocketAddr;
use std::sync::Arc;

use adjutant_agent::{SessionId, TaskId};
use axum::Router;
use serde_json::Value;

use super::{Tool, ToolCall, Toolbox, ToolsConfig};

const KEY: &str = "0198:3:call_7";

fn call(arguments: &Value) -> ToolCall<'_> {
    let kind = Box::leak(Box::default());
    ToolCall { arguments, key: KEY, task: TaskId::new(), session: SessionId(1), tenant: None, kind }
}

fn config(text: &str) -> ToolsConfig {
    toml::from_str(text).unwrap()
}

fn toolbox(text: &str) -> Toolbox {
    Toolbox::start(&config(text), Vec::new()).unwrap()
}

async fn call_tool(tool: &Arc<dyn Tool>, arguments: Value) -> Result<String, String> {
    tool.call(call(&arguments)).await
}

/// Listens on loopback for as long as the test runs.
async fn serve(routes: Router) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, routes).await });
    address
}
