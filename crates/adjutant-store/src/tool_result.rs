use adjutant_agent::ToolResult;
use serde_json::{Value, json};

use crate::text::storable_json;
use crate::{Lease, Result};

impl Lease {
    /// Stores what a call of `tool` in the last turn gave, with its event, and renews the lease.
    /// The first result of a call stays. Without a name the tool is one that the agent does not
    /// have.
    pub async fn tool_result(&self, tool: Option<&str>, result: &ToolResult) -> Result<()> {
        self.store
            .call(async |connection| {
                sqlx::query!(
                    "select tool_result_1($1, $2, $3, $4, $5, $6, $7)",
                    self.session.0,
                    self.slot,
                    self.task.0,
                    self.id.0,
                    self.answers,
                    tool,
                    row(result)
                )
                .execute(connection)
                .await
            })
            .await?;
        self.store.event_notifier.notify([self.session]);
        Ok(())
    }
}

/// A result as the functions read it that store one.
pub(crate) fn row(result: &ToolResult) -> Value {
    let ToolResult { call, content, is_error, duration_ms } = result;
    storable_json(json!({
        "call": call, "content": content, "is_error": is_error, "duration_ms": duration_ms,
    }))
}
