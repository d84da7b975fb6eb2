use adjutant_agent::SHARED_CONTEXT;
use adjutant_agent::dialects::DELEGATION_TOOLS;

use super::begin::Seat;
use crate::{Desk, Result};

/// What the children of a session's orchestrator get from it.
pub(crate) struct Parent {
    /// Those that the session carries; if it carries none, every tool that some worker has, and the shared context. None to
    /// delegate with.
    pub(crate) tools: Vec<String>,
    /// The session's, or the config's.
    pub(crate) model: String,
}

impl Desk {
    /// What the orchestrator of a session has, and so can give away.
    pub(crate) async fn parent(&self, seat: &Seat<'_>) -> Result<Parent> {
        let session = self.store.session_details(seat.tenant, seat.name).await?;
        let mut tools = session.parent.tools;
        if tools.is_empty() {
            tools.extend(self.store.tools().await?.into_iter().map(|tool| tool.name));
            tools.push(SHARED_CONTEXT.to_owned());
        }
        tools.retain(|name| !DELEGATION_TOOLS.contains(&name.as_str()));
        tools.sort_unstable();
        tools.dedup();
        let model = session.model.unwrap_or_else(|| self.policy.operator.default_model.clone());
        Ok(Parent { tools, model })
    }
}
