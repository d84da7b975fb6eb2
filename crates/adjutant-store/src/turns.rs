use adjutant_agent::{TaskId, ToolResult, Turn, Usage};

use crate::{Result, Store};

/// A turn as it was stored, with the tool results that came.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredTurn {
    pub number: i32,
    pub attempt: i32,
    pub turn: Turn,
    pub tool_results: Vec<ToolResult>,
}

impl Store {
    /// Everything a task has done, in order: what the next attempt goes on from.
    pub async fn turns(&self, task: TaskId) -> Result<Vec<StoredTurn>> {
        // The creation time prunes the partitions; a day's slack forgives a clock that was set back.
        let turns = self.call(async |connection| sqlx::query!(
            "select u.number, u.attempt, u.message, u.text, u.model, u.input_tokens, u.output_tokens, u.cost_nanousd,
                u.duration_ms
             from turn u
             where u.task = $1 and u.at >= (select created_at - interval '1 day' from task where id = $1)
             order by u.number",
            task.0
        )
        .fetch_all(connection).await).await?;
        let results = self
            .call(async |connection| {
                sqlx::query!(
                    "select r.turn, r.call, r.content, r.is_error, r.duration_ms
             from tool_result r
             where r.task = $1 and r.at >= (select created_at - interval '1 day' from task where id = $1)
             order by r.turn, r.at, r.call",
                    task.0
                )
                .fetch_all(connection)
                .await
            })
            .await?;
        let mut stored: Vec<StoredTurn> = turns
            .into_iter()
            .map(|row| StoredTurn {
                number: row.number,
                attempt: row.attempt,
                turn: Turn {
                    message: row.message,
                    text: row.text,
                    model: row.model,
                    usage: Usage {
                        input_tokens: row.input_tokens,
                        output_tokens: row.output_tokens,
                        cost_nanousd: row.cost_nanousd,
                    },
                    duration_ms: row.duration_ms,
                },
                tool_results: Vec::new(),
            })
            .collect();
        for row in results {
            if let Some(turn) = stored.iter_mut().find(|turn| turn.number == row.turn) {
                turn.tool_results.push(ToolResult {
                    call: row.call,
                    content: row.content,
                    is_error: row.is_error,
                    duration_ms: row.duration_ms,
                });
            }
        }
        Ok(stored)
    }
}
