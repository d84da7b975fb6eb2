use adjutant_agent::Turn;

use crate::text::{storable, storable_json};
use crate::{Error, Lease, Result};

impl Lease {
    /// Stores the next turn and renews the lease. After this the model call is never made again.
    ///
    /// Asking again after an unanswered call stores the turn once.
    pub async fn checkpoint(&mut self, turn: Turn) -> Result<()> {
        let number = self.turns_used + 1;
        let turn = Turn { message: storable_json(turn.message), text: turn.text.map(storable), ..turn };
        let body = serde_json::to_value(turn)
            .map_err(|error| Error::Unexpected(sqlx::Error::Encode(error.into())))?;
        self.store
            .call(async |connection| {
                sqlx::query!(
                    "select checkpoint_1($1, $2, $3, $4, $5)",
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
        self.turns_used = number;
        Ok(())
    }
}
