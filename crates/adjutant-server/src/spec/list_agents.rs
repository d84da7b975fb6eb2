use adjutant_agent::SessionId;
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
        let (definition, operator) = (&agent.definition, &self.policy.operator);
        let model =
            if definition.spec.model.is_empty() { &operator.default_model } else { &definition.spec.model };
        json!({
            "name": definition.name,
            "description": definition.description,
            "model": model,
            "max_turns": definition.spec.max_turns.min(operator.max_turns_ceiling),
            "tools": definition.spec.tools,
            "version": agent.version,
        })
    }
}
