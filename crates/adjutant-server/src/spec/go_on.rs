use adjutant_agent::{ContinueCall, SessionId};
use adjutant_store::NewDelegation;
use serde_json::Value;

use super::{Request, shown, spawn};
use crate::{Desk, Result};

impl Desk {
    /// A new task that starts from the conversation of one that has ended.
    pub(super) async fn go_on(
        &self,
        session: SessionId,
        call: &ContinueCall,
        request: &Request,
    ) -> Result<Value> {
        let webhook = call.options.webhook.iter();
        self.check_webhooks(session, webhook.map(|webhook| ("webhook".to_owned(), webhook))).await?;
        // Without a name: the agent that the task had, as it was.
        let new = spawn::traced(NewDelegation::of("", &call.task, &call.options), request);
        let operator = &self.policy.operator;
        let spawned = self.store.continue_task(session, call.task_id, &new, operator, request.key()).await?;
        let agent = self.store.progress(session, spawned.number).await?.status.agent;
        Ok(Value::Object(shown::spawned(&spawned, &agent, &call.options)))
    }
}
