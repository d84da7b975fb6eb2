use adjutant_agent::{Answer, StoredTurn, TaskId, ToolResult, Turn, Usage};
use sqlx::types::Json;

use crate::status::known;
use crate::{Result, Store};

impl Store {
    /// All stored turns of a task, in order: the state that the next attempt continues from.
    pub async fn turns(&self, task: TaskId) -> Result<Vec<StoredTurn>> {
        // The creation time prunes partitions; a day of slack allows for a clock that was set back.
        let turns = self.call(async |connection| sqlx::query!(
            r#"select u.number, u.attempt, u.kind, u.message as "message: Json<Answer>", u.model, u.input_tokens, u.output_tokens,
                u.cache_read_tokens, u.cache_write_tokens, u.cost_nanousd, u.usage_estimated, u.duration_ms
             from turn u
             where u.task = $1 and u.at >= (select created_at - interval '1 day' from task where id = $1)
             order by u.number"#,
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
        let mut stored = Vec::with_capacity(turns.len());
        for row in turns {
            stored.push(StoredTurn {
                number: row.number,
                attempt: row.attempt,
                turn: Turn {
                    kind: known(&row.kind)?,
                    answer: row.message.0,
                    model: row.model,
                    usage: Usage {
                        input_tokens: row.input_tokens,
                        output_tokens: row.output_tokens,
                        cache_read_tokens: row.cache_read_tokens,
                        cache_write_tokens: row.cache_write_tokens,
                        cost_nanousd: row.cost_nanousd,
                        estimated: row.usage_estimated,
                    },
                    duration_ms: row.duration_ms,
                },
                tool_results: Vec::new(),
            });
        }
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
