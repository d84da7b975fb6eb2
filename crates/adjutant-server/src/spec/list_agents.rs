use adjutant_agent::SessionId;
use adjutant_agent::dialects::spec;
use adjutant_store::Agent;
use serde_json::{Value, json};

use crate::{Desk, Result};

impl Desk {
    /// Who there is; system prompts are not shown.
    pub(super) async fn list_agents(&self, session: SessionId) -> Result<Value> {
        let agents = self.store.agents(session).await?;
        Ok(json!({ "agents": agents.iter().map(|agent| self.agent_shown(agent)).collect::<Vec<_>>() }))
    }

    fn agent_shown(&self, agent: &Agent) -> Value {
        let operator = &self.policy.operator;
        let mut shown = spec::agent(&agent.definition, &operator.default_model, operator.max_turns_ceiling);
        shown["version"] = json!(agent.version);
        shown
    }
}
