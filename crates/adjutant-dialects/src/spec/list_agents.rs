use adjutant_agent::SessionId;
use adjutant_store::Agent;
use serde_json::{Value, json};

use super::render;
use crate::{Context, Result};

/// The agents of the session, without their system prompts.
pub(super) async fn list_agents(context: &Context<'_>, session: SessionId) -> Result<Value> {
    let operator = &context.policy.operator;
    let entry = |Agent { definition, version }| {
        let definition = context.grants().shown(definition, &operator.default_model)?;
        let mut entry =
            render::agent(&definition, &operator.default_model, operator.max_turns_ceiling);
        entry["version"] = json!(version);
        Some(entry)
    };
    let agents = context.store.agents(session).await?;
    Ok(json!({ "agents": agents.into_iter().filter_map(entry).collect::<Vec<_>>() }))
}
