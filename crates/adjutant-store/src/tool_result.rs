use adjutant_agent::ToolResult;

use crate::text::storable;
use crate::{Lease, Result};

impl Lease {
    /// Stores what a tool call of the last turn gave, and renews the lease. The first result of a call stays.
    pub async fn tool_result(&self, result: &ToolResult) -> Result<()> {
        self.store
            .call(async |connection| {
                sqlx::query!(
                    "select tool_result_1($1, $2, $3, $4, $5, $6, $7, $8)",
                    self.slot,
                    self.task.0,
                    self.id.0,
                    self.answers,
                    storable(result.call.clone()),
                    storable(result.content.clone()),
                    result.is_error,
                    result.duration_ms
                )
                .execute(connection)
                .await
            })
            .await?;
        Ok(())
    }
}
