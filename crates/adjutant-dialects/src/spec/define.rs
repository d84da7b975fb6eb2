use adjutant_agent::{AgentDraft, ErrorCode, Refusal, SessionId, Skill};
use adjutant_store::Redefinition;
use serde_json::{Value, json};

use super::DefineCall;
use crate::{Context, Error, Result};

/// Defines an agent of the session, or a new version of one.
pub(super) async fn define(
    context: &Context<'_>,
    session: SessionId,
    call: &DefineCall,
) -> Result<Value> {
    let draft = inherited(context, session, call.draft.clone()).await?;
    let mut agent = draft.check(&context.policy.definitions)?;
    context.grants().check_agent(&agent.name)?;
    if !agent.config.model.is_empty() {
        agent.config.model = context.model(&agent.config.model)?.to_owned();
    }
    context.refuse_unknown_tools(&agent.config.tools).await?;
    limit_skills(context, &mut agent.config.skills).await?;
    let existing = if call.replace { Redefinition::Replace } else { Redefinition::Refuse };
    let version = context.store.define(session, &agent, existing).await?;
    Ok(json!({ "defined": agent.name, "description": agent.description, "version": version }))
}

async fn inherited(
    context: &Context<'_>,
    session: SessionId,
    mut draft: AgentDraft,
) -> Result<AgentDraft> {
    let Some(parent) = draft.extends.take() else { return Ok(draft) };
    match context.store.agent(session, &parent).await {
        Ok(mut parent) => {
            // The caller did not name these tools, so those that it may not use are left out.
            let withheld = context.store.withheld_tools(&parent.definition.config.tools).await?;
            parent.definition.config.tools.retain(|tool| !withheld.contains(tool));
            Ok(draft.extending(&parent.definition))
        }
        Err(Error::Refused(refusal)) if refusal.code == ErrorCode::AgentNotFound => {
            let start: String = parent.chars().take(64).collect();
            let sentence = format!("extends: agent not found: {start}");
            Err(Refusal::new(ErrorCode::AgentNotFound, sentence).into())
        }
        Err(error) => Err(error),
    }
}

/// Removes the tools of skills that the caller may not use.
async fn limit_skills(context: &Context<'_>, skills: &mut [Skill]) -> Result<()> {
    let tools: Vec<String> = skills.iter().flat_map(|skill| skill.tools.clone()).collect();
    if tools.is_empty() {
        return Ok(());
    }
    let withheld = context.store.withheld_tools(&tools).await?;
    for skill in skills {
        skill.tools.retain(|tool| !withheld.contains(tool));
    }
    Ok(())
}
