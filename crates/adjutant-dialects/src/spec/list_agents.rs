use adjutant_agent::SessionId;
use adjutant_store::Agent;
use serde_json::{Value, json};

use super::render;
use crate::{Context, Result};

/// The agents of the session, without their system prompts.
pub(super) async fn list_agents(context: &Context<'_>, session: SessionId) -> Result<Value> {
    let operator = &context.policy.operator;
    let entry = |agent: &Agent| {
        let mut entry =
            render::agent(&agent.definition, &operator.default_model, operator.max_turns_ceiling);
        entry["version"] = json!(agent.version);
        entry
    };
    let agents = context.store.agents(session).await?;
    Ok(json!({ "agents": agents.iter().map(entry).collect::<Vec<_>>() }))
}
