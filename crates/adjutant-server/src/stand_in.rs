//! What is written elsewhere at this moment and takes the place of this file when it is merged: keys and history in the store,
//! and the tools at the desk.

use adjutant_agent::{ContextCall, ErrorCode, SHARED_CONTEXT, SUBAGENT};
use adjutant_store::Store;
use serde_json::{Value, json};

use crate::{Caller, Desk, Dialect, Error, Result, ToolCall};

pub(crate) struct ApiKey {
    pub(crate) tenant: String,
    pub(crate) scopes: Vec<String>,
}

/// `Store::key`.
pub(crate) async fn key(_: &Store, _: &str) -> Result<Option<ApiKey>> {
    Ok(None)
}

/// `Store::has_keys`.
pub(crate) async fn has_keys(_: &Store) -> Result<bool> {
    Ok(false)
}

/// `Store::tasks`, `task`, `turns`, `cancel_task`, `retry_task`, `stats`.
pub(crate) fn later<T>() -> Result<T> {
    Err(Error::refused(ErrorCode::RouteNotFound, "This comes with the history"))
}

impl Desk {
    /// Answers a tool call.
    pub async fn call(&self, caller: &Caller, session: &str, call: ToolCall, _: Dialect) -> Result<Value> {
        let session = self.store.session(&caller.tenant, session).await?.id;
        match call.tool.as_str() {
            SHARED_CONTEXT => {
                Ok(self.store.shared_context(session, &ContextCall::parse(&call.arguments)?).await?)
            }
            SUBAGENT => Ok(json!({"agents": []})),
            tool => Err(Error::refused(ErrorCode::ToolNotFound, format!("Tool not found: {tool}"))),
        }
    }
}
