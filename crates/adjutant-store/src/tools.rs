use adjutant_agent::{SessionId, ToolDefinition};
use serde::Serialize;
use serde_json::Value;
use sqlx::types::Json;

use crate::text::{storable, storable_json};
use crate::{Error, Result, Store};

/// A tool that a worker offers, and to whom.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PublishedTool {
    #[serde(flatten)]
    pub definition: ToolDefinition,
    /// The tenants whose tasks may use it; `None` is all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenants: Option<Vec<String>>,
}

impl From<ToolDefinition> for PublishedTool {
    fn from(definition: ToolDefinition) -> Self {
        Self { definition, tenants: None }
    }
}

impl Store {
    /// Publishes the tools of a worker. A tool that no worker published for a day counts as
    /// removed, so workers repeat this call.
    pub async fn publish_tools(&self, tools: &[PublishedTool]) -> Result<()> {
        let definitions = tools
            .iter()
            .map(|tool| serde_json::to_value(tool).map(storable_json))
            .collect::<std::result::Result<Vec<Value>, _>>()
            .map_err(|error| Error::Unexpected(sqlx::Error::Encode(error.into())))?;
        self.call(async |connection| {
            sqlx::query!("select publish_tools_1($1)", Value::Array(definitions))
                .execute(connection)
                .await
        })
        .await?;
        Ok(())
    }

    /// The tools that workers have and the caller may use, by name.
    pub async fn tools(&self) -> Result<Vec<ToolDefinition>> {
        let tools = self
            .call(async |connection| {
                sqlx::query_scalar!(
                    r#"select definition as "definition: Json<ToolDefinition>"
                       from tool
                       where seen_at > now() - interval '1 day' and is_tool_for_1(tenants, $1)
                       order by name"#,
                    self.actors_tenant()
                )
                .fetch_all(connection)
                .await
            })
            .await?;
        let tools = tools.into_iter().map(|tool| tool.0);
        Ok(tools.filter(|tool| self.grants().allows_tool(&tool.name)).collect())
    }

    /// The names among these that are no tool of any worker, or none that the caller may use, in
    /// the given order.
    pub async fn unknown_tools(&self, names: &[String]) -> Result<Vec<String>> {
        let sent: Vec<String> = names.iter().cloned().map(storable).collect();
        let known = self
            .call(async |connection| {
                sqlx::query_scalar!(
                    "select name from tool
                     where name = any($1) and seen_at > now() - interval '1 day' and is_tool_for_1(tenants, $2)",
                    &sent,
                    self.actors_tenant()
                )
                .fetch_all(connection)
                .await
            })
            .await?;
        let is_unknown = |name: &&String| !known.contains(name) || !self.grants().allows_tool(name);
        Ok(names.iter().filter(is_unknown).cloned().collect())
    }

    /// The names among these that the caller may not use, whether or not a worker has them.
    pub async fn withheld_tools(&self, names: &[String]) -> Result<Vec<String>> {
        let sent: Vec<String> = names.iter().cloned().map(storable).collect();
        let of_others = self
            .call(async |connection| {
                sqlx::query_scalar!(
                    "select name from tool where name = any($1) and not is_tool_for_1(tenants, $2)",
                    &sent,
                    self.actors_tenant()
                )
                .fetch_all(connection)
                .await
            })
            .await?;
        let is_withheld =
            |name: &&String| of_others.contains(name) || !self.grants().allows_tool(name);
        Ok(names.iter().filter(is_withheld).cloned().collect())
    }

    /// The tenant of a session, to which the tools and models of a worker may be limited.
    pub async fn tenant_of(&self, session: SessionId) -> Result<Option<String>> {
        self.call(async |connection| {
            sqlx::query_scalar!("select tenant from session where id = $1", session.0)
                .fetch_optional(connection)
                .await
        })
        .await
    }
}
