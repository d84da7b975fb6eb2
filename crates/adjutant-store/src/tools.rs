use adjutant_agent::ToolDefinition;
use serde_json::Value;
use sqlx::types::Json;

use crate::text::{storable, storable_json};
use crate::{Error, Result, Store};

impl Store {
    /// Publishes the tools of a worker. A tool that no worker published for a day counts as
    /// removed, so workers repeat this call.
    pub async fn publish_tools(&self, tools: &[ToolDefinition]) -> Result<()> {
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

    /// The tools that workers have, by name.
    pub async fn tools(&self) -> Result<Vec<ToolDefinition>> {
        let tools = self
            .call(async |connection| {
                sqlx::query_scalar!(
                    r#"select definition as "definition: Json<ToolDefinition>"
                       from tool
                       where seen_at > now() - interval '1 day'
                       order by name"#
                )
                .fetch_all(connection)
                .await
            })
            .await?;
        Ok(tools.into_iter().map(|tool| tool.0).collect())
    }

    /// The names among these that are no tool of any worker, in the given order.
    pub async fn unknown_tools(&self, names: &[String]) -> Result<Vec<String>> {
        let sent: Vec<String> = names.iter().cloned().map(storable).collect();
        let known = self
            .call(async |connection| {
                sqlx::query_scalar!(
                    "select name from tool where name = any($1) and seen_at > now() - interval '1 day'",
                    &sent
                )
                .fetch_all(connection)
                .await
            })
            .await?;
        Ok(names.iter().filter(|name| !known.contains(name)).cloned().collect())
    }
}
