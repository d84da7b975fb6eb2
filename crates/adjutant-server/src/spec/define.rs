use adjutant_agent::{AgentDraft, DefineCall, ErrorCode, Refusal, SHARED_CONTEXT, SessionId};
use adjutant_store::Redefinition;
use serde_json::{Value, json};

use crate::{Desk, Error, Result};

impl Desk {
    /// A new agent of the session, or a new version of one.
    pub(super) async fn define(&self, session: SessionId, call: &DefineCall) -> Result<Value> {
        let draft = self.inherited(session, call.draft.clone()).await?;
        let mut agent = draft.check(&self.policy.definitions)?;
        if !agent.spec.model.is_empty() {
            agent.spec.model = self.policy.model(&agent.spec.model)?.to_owned();
        }
        self.refuse_unknown_tools(&agent.spec.tools).await?;
        let existing = if call.replace { Redefinition::Replace } else { Redefinition::Refuse };
        let version = self.store.define(session, &agent, existing).await?;
        Ok(json!({ "defined": agent.name, "description": agent.description, "version": version }))
    }

    async fn inherited(&self, session: SessionId, mut draft: AgentDraft) -> Result<AgentDraft> {
        let Some(parent) = draft.extends.take() else { return Ok(draft) };
        match self.store.agent(session, &parent).await.map_err(Error::from) {
            Ok(parent) => Ok(draft.extending(&parent.definition)),
            Err(error) if error.code() == ErrorCode::AgentNotFound => {
                let start: String = parent.chars().take(64).collect();
                let sentence = format!("extends: agent not found: {start}");
                Err(Refusal::new(ErrorCode::AgentNotFound, sentence).into())
            }
            Err(error) => Err(error),
        }
    }

    /// The shared context is there whether a worker has said so or not.
    pub(crate) async fn refuse_unknown_tools(&self, tools: &[String]) -> Result<()> {
        let tools: Vec<String> = tools.iter().filter(|tool| *tool != SHARED_CONTEXT).cloned().collect();
        if tools.is_empty() {
            return Ok(());
        }
        let unknown = self.store.unknown_tools(&tools).await?;
        let Some(first) = unknown.first() else { return Ok(()) };
        let start: String = first.chars().take(64).collect();
        Err(Refusal::new(ErrorCode::InvalidTool, format!("tools: there is no tool {start:?}")).into())
    }
}
