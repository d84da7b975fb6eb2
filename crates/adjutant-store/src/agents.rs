use adjutant_agent::{AgentDefinition, ErrorCode, Refusal, SessionId};
use serde::Deserialize;
use serde_json::Value;
use sqlx::types::Json;

use crate::text::refuse_nul;
use crate::{Error, Operator, Result, Store};

/// An agent that a session can delegate tasks to.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Agent {
    pub definition: AgentDefinition,
    /// Counts the definitions under its name, from 1; 0 for an agent that is not registered.
    pub version: i32,
}

/// What [`Store::define`] does if the session already has an agent of this name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redefinition {
    Refuse,
    /// Replaces it under a new version. Existing tasks keep their configuration.
    Replace,
}

impl Store {
    /// Replaces the agents of the config, which all sessions have: a changed agent gets a new
    /// version, a missing one is removed. Of processes with different configs the last to start
    /// wins.
    pub async fn publish_agents(&self, agents: &[AgentDefinition]) -> Result<()> {
        let definitions = agents.iter().map(storable).collect::<Result<Vec<_>>>()?;
        self.call(async |connection| {
            sqlx::query!("select publish_agents_1($1)", Value::Array(definitions))
                .execute(connection)
                .await
        })
        .await?;
        Ok(())
    }

    /// Defines an agent for one session and returns its version. An agent of the config is never
    /// replaced.
    pub async fn define(
        &self,
        session: SessionId,
        agent: &AgentDefinition,
        existing: Redefinition,
    ) -> Result<i32> {
        let definition = storable(agent)?;
        let version = self
            .call(async |connection| {
                sqlx::query_scalar!(
                    r#"select define_1($1, $2, $3) as "version!""#,
                    session.0,
                    definition,
                    existing == Redefinition::Replace
                )
                .fetch_one(connection)
                .await
            })
            .await?;
        Ok(version)
    }

    /// The agents of a session, by name. System prompts and skills are left out to keep the list
    /// short. An agent without a model has the session's.
    pub async fn agents(&self, session: SessionId) -> Result<Vec<Agent>> {
        let agents = self
            .call(async |connection| {
                sqlx::query!(
                    r#"select a.version as "version!", s.model,
                        a.definition #- '{spec, system_prompt}' #- '{spec, skills}' as "definition!: Json<AgentDefinition>"
                       from agents_1($1) a
                       left join session s on s.id = $1"#,
                    session.0
                )
                .fetch_all(connection)
                .await
            })
            .await?;
        Ok(agents
            .into_iter()
            .map(|row| {
                let mut definition = row.definition.0;
                if definition.spec.model.is_empty() {
                    definition.spec.model = row.model.unwrap_or_default();
                }
                Agent { definition, version: row.version }
            })
            .collect())
    }

    /// The newest version of an agent; the session's own take precedence over the config's.
    pub async fn agent(&self, session: SessionId, name: &str) -> Result<Agent> {
        self.agent_for(session, name, &Operator::default()).await
    }

    /// Like [`Store::agent`]; an unregistered name gives the operator's free-form agent, if
    /// allowed.
    pub async fn agent_for(
        &self,
        session: SessionId,
        name: &str,
        operator: &Operator,
    ) -> Result<Agent> {
        Ok(self.agent_and_model(session, name, operator).await?.0)
    }

    /// An agent, and the session's model for agents without one.
    pub(crate) async fn agent_and_model(
        &self,
        session: SessionId,
        name: &str,
        operator: &Operator,
    ) -> Result<(Agent, Option<String>)> {
        let row = self
            .call(async |connection| {
                sqlx::query!(
                    r#"select s.model, (select to_jsonb(a) from agent_1(s.id, $2) a) as "agent: Json<Agent>"
                       from session s
                       where s.id = $1"#,
                    session.0,
                    crate::text::storable(name.to_owned())
                )
                .fetch_optional(connection)
                .await
            })
            .await?;
        let Some(row) = row else {
            return Err(Refusal::new(ErrorCode::SessionNotFound, "Session not found").into());
        };
        let free_form =
            || operator.free_form_agent(name).map(|definition| Agent { definition, version: 0 });
        let Some(agent) = row.agent.map(|agent| agent.0).or_else(free_form) else {
            return Err(
                Refusal::new(ErrorCode::AgentNotFound, format!("Agent not found: {name}")).into()
            );
        };
        Ok((agent, row.model))
    }
}

fn storable(agent: &AgentDefinition) -> Result<Value> {
    let definition = serde_json::to_value(agent)
        .map_err(|error| Error::Unexpected(sqlx::Error::Encode(error.into())))?;
    refuse_nul("", &definition)?;
    Ok(definition)
}
