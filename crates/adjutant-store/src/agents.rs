use adjutant_agent::{AgentDefinition, ErrorCode, Refusal, SessionId};
use serde::Deserialize;
use serde_json::Value;
use sqlx::types::Json;

use crate::json::to_json;
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

    /// The agents of a session that the caller may use, by name, with the tools that it may use.
    /// System prompts and skills are left out to keep the list short. An agent without a model has
    /// the session's.
    pub async fn agents(&self, session: SessionId) -> Result<Vec<Agent>> {
        let agents = self
            .call(async |connection| {
                sqlx::query!(
                    r#"select a.version as "version!", s.model,
                        array(select name from tool where not is_tool_for_1(tenants, s.tenant)) as "withheld!",
                        a.definition #- '{config, system_prompt}' #- '{config, skills}' as "definition!: Json<AgentDefinition>"
                       from agents_1($1) a
                       left join session s on s.id = $1"#,
                    session.0
                )
                .fetch_all(connection)
                .await
            })
            .await?;
        let shown = agents.into_iter().filter_map(|row| {
            let mut definition = row.definition.0;
            if definition.config.model.is_empty() {
                definition.config.model = row.model.unwrap_or_default();
            }
            definition.config.tools.retain(|tool| !row.withheld.contains(tool));
            let definition = self.grants().shown(definition, "")?;
            Some(Agent { definition, version: row.version })
        });
        Ok(shown.collect())
    }

    /// The newest version of an agent that the caller may use; the session's own take precedence
    /// over the config's.
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
        self.grants().check_agent(name)?;
        let operator = to_json(operator)?;
        let row = self
            .call(async |connection| {
                sqlx::query!(
                    r#"select coalesce(
                           (select to_jsonb(a) from agent_1(s.id, $2) a),
                           jsonb_build_object('version', 0, 'definition', free_form_agent_1($3, $2))
                       ) as "agent!"
                       from session s
                       where s.id = $1"#,
                    session.0,
                    crate::text::storable(name.to_owned()),
                    operator
                )
                .fetch_optional(connection)
                .await
            })
            .await?;
        let Some(row) = row else {
            return Err(Refusal::new(ErrorCode::SessionNotFound, "Session not found").into());
        };
        if row.agent["definition"].is_null() {
            let message = format!("Agent not found: {name}");
            return Err(Refusal::new(ErrorCode::AgentNotFound, message).into());
        }
        serde_json::from_value(row.agent)
            .map_err(|error| Error::Unexpected(sqlx::Error::Decode(error.into())))
    }
}

pub(crate) fn storable(agent: &AgentDefinition) -> Result<Value> {
    let definition = serde_json::to_value(agent)
        .map_err(|error| Error::Unexpected(sqlx::Error::Encode(error.into())))?;
    refuse_nul("", &definition)?;
    Ok(definition)
}
