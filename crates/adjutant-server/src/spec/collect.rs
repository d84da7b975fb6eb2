use adjutant_agent::dialects::spec::put_text;
use adjutant_agent::{CollectCall, Outcome, SPEC_VIEW, SessionId};
use serde_json::{Value, json};

use super::{Request, shown};
use crate::{Desk, Result};

impl Desk {
    /// Hands the outcome over, once: the result of a task that completed, and the error of one that did not.
    pub(super) async fn collect(
        &self,
        session: SessionId,
        call: &CollectCall,
        request: &Request,
    ) -> Result<Value> {
        let collected = self.store.collect(session, call.task_id, request.key()).await?;
        let mut answer = shown::task(&collected.status);
        match &collected.outcome {
            Outcome::Completed { result, summary } => {
                put_text(&mut answer, "result", result);
                if let Some(summary) = summary {
                    answer.insert("summary".to_owned(), json!(SPEC_VIEW.of(summary).text));
                }
            }
            Outcome::Failed { partial_result, .. } | Outcome::Cancelled { partial_result } => {
                if let Some(text) = partial_result {
                    put_text(&mut answer, "partial_result", text);
                }
            }
        }
        Ok(Value::Object(answer))
    }
}
