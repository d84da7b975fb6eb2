use adjutant_agent::{ReadCall, SessionId};
use serde_json::{Value, json};

use crate::{Desk, Result};

impl Desk {
    /// A page of the full text of a task that has ended, collected or not.
    pub(super) async fn read(&self, session: SessionId, call: &ReadCall) -> Result<Value> {
        let page = self.store.read_result(session, call.task_id, call.offset, call.limit).await?;
        Ok(json!({
            "task_id": call.task_id.to_string(),
            "offset": call.offset,
            "text": page.text,
            "next_offset": page.next_offset,
            "result_chars": page.result_chars,
        }))
    }
}
