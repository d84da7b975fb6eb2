use std::time::Duration;

use crate::batch::check_name;
use crate::text::refuse_nul_in;
use crate::{Result, Store};

/// The longest that one rate limit closes a gate: a provider's nonsense must not close it for ever.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

impl Store {
    /// Holds a model back on all workers for so long from now; a gate that is closed for longer already stays as it is.
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
