use adjutant_agent::{Outcome, SPEC_VIEW, SessionId};
use serde_json::{Value, json};

use super::render::put_text;
use super::{CollectCall, ParsedRequest, task_fields};
use crate::{Context, Result};

/// Returns the outcome of a task, once: its result, or its error.
pub(super) async fn collect(
    context: &Context<'_>,
    session: SessionId,
    call: &CollectCall,
    request: &ParsedRequest,
) -> Result<Value> {
    let collected = context.store.collect(session, call.task_id, request.key()).await?;
    let mut answer = task_fields::task(&collected.task);
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
