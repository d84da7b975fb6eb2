//! PLACE HELD for `Store::continue_task`, which another branch has: its call belongs below, and this refusal goes.

use adjutant_agent::{ContinueCall, ErrorCode, Refusal, SessionId};
use serde_json::Value;

use super::Request;
use crate::{Desk, Result};

impl Desk {
    /// A new task that starts from the conversation of one that has ended.
    pub(super) async fn go_on(
        &self,
        _session: SessionId,
        _call: &ContinueCall,
        _request: &Request,
    ) -> Result<Value> {
        // let new = spawn::delegation(&call.options, request).of("", &call.task, Vec::new());
        // let spawned = self.store.continue_task(session, call.task_id, &new, &self.policy.operator, request.key()).await?;
        Err(Refusal::new(ErrorCode::InvalidAction, "continue is not served yet").into())
    }
}
