use adjutant_agent::{Budget, Turn};
use serde_json::{Value, json};
use sqlx::types::Json;

use crate::preflight::Row;
use crate::text::storable_json;
use crate::{Lease, Preflight, Result};

impl Lease {
    /// Stores the next turn with its event, renews the lease, and runs the preflight of the next
    /// call of the turn's model, which counts the turn's cost. The model call is never repeated
    /// after this. Storing the same turn again stores it once.
    pub async fn checkpoint(&mut self, turn: &Turn) -> Result<Preflight> {
        let number = self.answers + 1;
        let body = body(turn);
        let row = self
            .store
            .call(async |connection| {
                sqlx::query_as!(
                    Row,
                    r#"select closed_ms, is_circuit, session_budget as "session_budget: Json<Budget>", session_input_tokens,
                        session_output_tokens, session_cost_nanousd, tree_budget as "tree_budget: Json<Budget>",
                        tree_input_tokens, tree_output_tokens, tree_cost_nanousd
                       from checkpoint_and_preflight_1($1, $2, $3, $4, $5, $6, $7)"#,
                    self.slot,
                    self.task.0,
                    self.id.0,
                    number,
                    body,
                    self.session.0,
                    turn.model
                )
                .fetch_one(connection)
                .await
            })
            .await?;
        self.answers = number;
        self.store.event_notifier.notify([self.session]);
        Ok(row.into())
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
