use adjutant_agent::SHARED_CONTEXT;
use adjutant_agent::dialects::DELEGATION_TOOLS;

use super::begin::Seat;
use crate::{Desk, Result};

impl Desk {
    /// The tools that the orchestrator of a session has, and so those that it can give away: those that the session carries; if it
    /// carries none, every tool that some worker has, and the shared context. None to delegate with.
    pub(crate) async fn parent_tools(&self, seat: &Seat<'_>) -> Result<Vec<String>> {
        let mut names = self.store.session_details(seat.tenant, seat.name).await?.parent.tools;
        if names.is_empty() {
            names.extend(self.store.tools().await?.into_iter().map(|tool| tool.name));
            names.push(SHARED_CONTEXT.to_owned());
        }
        names.retain(|name| !DELEGATION_TOOLS.contains(&name.as_str()));
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    /// The model that a child has: the one that its call names, the session's, or the config's.
    pub(crate) async fn child_model(&self, seat: &Seat<'_>, named: Option<&str>) -> Result<String> {
        if let Some(name) = named {
            return Ok(self.policy.model(name)?.to_owned());
        }
        let session = self.store.session_details(seat.tenant, seat.name).await?;
        Ok(session.model.unwrap_or_else(|| self.policy.operator.default_model.clone()))
    }
}
