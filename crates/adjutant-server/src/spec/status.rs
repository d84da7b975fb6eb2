use adjutant_agent::{ErrorCode, Refusal, SessionId, StatusCall};
use serde_json::Value;

use super::shown;
use crate::{Desk, Result};

impl Desk {
    /// How a task stands; one that was collected is not found.
    pub(super) async fn status(&self, session: SessionId, call: &StatusCall) -> Result<Value> {
        let progress = self.store.progress(session, call.task_id).await?;
        if progress.status.collected_at.is_some() {
            let sentence = format!("Task not found: {}", call.task_id);
            return Err(Refusal::new(ErrorCode::TaskNotFound, sentence).into());
        }
        Ok(Value::Object(shown::progress(&progress)))
    }
}
