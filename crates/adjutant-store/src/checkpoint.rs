use adjutant_agent::Turn;
use serde_json::{Value, json};

use crate::text::storable_json;
use crate::{Lease, Result};

impl Lease {
    /// Stores the next turn with its event, and renews the lease. After this the model call is never made again.
    ///
    /// Asking again after an unanswered call stores the turn once.
    pub async fn checkpoint(&mut self, turn: &Turn) -> Result<()> {
        let number = self.answers + 1;
        let body = body(turn);
        self.store
            .call(async |connection| {
                sqlx::query!(
                    "select checkpoint_2($1, $2, $3, $4, $5, $6)",
                    self.session.0,
                    self.slot,
                    self.task.0,
                    self.id.0,
                    number,
                    body
                )
                .execute(connection)
                .await
            })
            .await?;
        self.answers = number;
        self.store.audience.happened([self.session]);
        Ok(())
    }
}

fn body(turn: &Turn) -> Value {
    let Turn { kind, answer, model, usage, duration_ms } = turn;
    storable_json(json!({
        "kind": kind,
        "message": answer,
        "text": answer.text(),
        "model": model,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "cost_nanousd": usage.cost_nanousd,
        "duration_ms": duration_ms,
    }))
}
