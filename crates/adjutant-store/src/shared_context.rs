//! Calls to a session's shared context, by its orchestrator and by its tasks. Both use one SQL
//! function; these methods set the author, which callers cannot choose.

use adjutant_agent::{ContextAction, ContextCall, SessionId, ToolResult, estimate_tokens};
use serde_json::Value;

use crate::text::storable;
use crate::{Error, Lease, Result, Store};

impl Store {
    /// Makes a call of the orchestrator to its session's shared context. A write that was answered
    /// is durable and visible to all later reads.
    pub async fn shared_context(&self, session: SessionId, call: &ContextCall) -> Result<Value> {
        let body = self.context_body(call)?;
        let row = self
            .call(async |connection| {
                sqlx::query!(
                    r#"select answer as "answer!", session_id as "session_id!" from session_context_1($1, $2)"#,
                    session.0,
                    body
                )
                .fetch_one(connection)
                .await
            })
            .await?;
        log_change(call, &row.session_id, "orchestrator", &row.answer);
        Ok(row.answer)
    }

    /// The call, and the limits of this process.
    fn context_body(&self, call: &ContextCall) -> Result<Value> {
        let mut body = serde_json::to_value(call).map_err(json_error)?;
        body["keep"] = self.context_versions.into();
        body["max_value_tokens"] = self.texts.value.into();
        body["max_store_tokens"] = self.texts.store.into();
        Ok(body)
    }
}

impl Lease {
    /// Makes a tool call of the last turn to the shared context and, in the same transaction,
    /// stores its result and renews the lease, so that a write happens exactly once. A repeated
    /// call returns the stored result. A refusal is stored as a result, too.
    pub async fn shared_context(&self, call_id: &str, call: &ContextCall) -> Result<ToolResult> {
        let body = self.store.context_body(call)?;
        let call_id = storable(call_id.to_owned());
        let row = self
            .store
            .call(async |connection| {
                sqlx::query!(
                    r#"select content as "content!", is_error as "is_error!", duration_ms as "duration_ms!", session_id,
                        written_by
                       from task_context_1($1, $2, $3, $4, $5, $6, $7)"#,
                    self.session.0,
                    self.slot,
                    self.task.0,
                    self.id.0,
                    self.answers,
                    call_id,
                    body
                )
                .fetch_one(connection)
                .await
            })
            .await?;
        self.store.event_notifier.notify([self.session]);
        if let (false, Some(session), Some(by)) = (row.is_error, &row.session_id, &row.written_by) {
            log_change(call, session, by, &serde_json::from_str(&row.content).map_err(json_error)?);
        }
        Ok(ToolResult {
            call: call_id,
            content: row.content,
            is_error: row.is_error,
            duration_ms: row.duration_ms,
        })
    }
}

fn json_error(error: serde_json::Error) -> Error {
    Error::Unexpected(sqlx::Error::Decode(error.into()))
}

/// Logs the author and the key of a change, but not its value.
fn log_change(call: &ContextCall, session: &str, by: &str, answer: &Value) {
    let (action, key, version, size) = match call {
        ContextCall::Write { key, value } => {
            (ContextAction::Write, key, &answer["version"], estimate_tokens(value.as_str()))
        }
        ContextCall::Delete { key } => (ContextAction::Delete, key, &answer["previous_version"], 0),
        ContextCall::ListKeys
        | ContextCall::Read { .. }
        | ContextCall::ReadBatch { .. }
        | ContextCall::ReadHistory { .. }
        | ContextCall::Snapshot { .. }
        | ContextCall::ReadSnapshot { .. } => return,
    };
    let key = key.as_str();
    tracing::debug!(
        session.id = session,
        context.key = key,
        context.version = version.as_i64(),
        context.written_by = by,
        context.size_tokens = size,
        "shared context of {session}: {action} {key}"
    );
}
