use adjutant_agent::dialects::spec;
use adjutant_agent::{ReadCall, SessionId};
use serde_json::Value;

use crate::{Desk, Result};

impl Desk {
    /// A page of the full text of a task that has ended, collected or not.
    pub(super) async fn read(&self, session: SessionId, call: &ReadCall) -> Result<Value> {
        let page = self.store.read_result(session, call.task_id, call.offset, call.limit).await?;
        Ok(spec::page(call, &page.text, page.next_offset, page.result_chars))
    }
}
