use adjutant_agent::dialects::spec::put_text;
use adjutant_agent::{CancelCall, SessionId};
use serde_json::{Value, json};

use super::shown;
use crate::{Desk, Result};

impl Desk {
    /// Stops a task and everything below it, and answers with what it had said; one that has ended stays as it is.
    pub(super) async fn cancel(&self, session: SessionId, call: &CancelCall) -> Result<Value> {
        let cancelled = self.store.cancel_by_number(session, call.task_id).await?;
        self.tell_cancelled(&cancelled.ended).await;
        let mut answer = shown::progress(&cancelled.progress);
        answer.insert("cancelled".to_owned(), json!(cancelled.changed));
        match &cancelled.partial_result {
            Some(text) => put_text(&mut answer, "partial_result", text),
            None => {
                answer.insert("partial_result".to_owned(), Value::Null);
            }
        }
        Ok(Value::Object(answer))
    }
}
