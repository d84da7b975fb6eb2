use std::time::Duration;

use crate::batch::check_name;
use crate::text::refuse_nul_in;
use crate::{Result, Store};

/// The longest time that a gate is closed, against absurd values of a provider.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

impl Store {
    /// Closes a model's gate for all workers, for `time` from now. A gate that is already closed
    /// for longer is unchanged.
    pub async fn close_gate(&self, model: &str, time: Duration) -> Result<()> {
        refuse_nul_in("model", model)?;
        check_name("model", model)?;
        self.call(async |connection| {
            sqlx::query!("select close_gate_1($1, $2)", model, time.min(LONGEST).as_secs_f64())
                .execute(connection)
                .await
        })
        .await?;
        Ok(())
    }
}
