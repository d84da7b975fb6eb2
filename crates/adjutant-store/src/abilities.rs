use std::collections::BTreeMap;
use std::time::Duration;

use adjutant_agent::TaskId;
use serde_json::json;

use crate::text::storable_json;
use crate::{Result, Worker};

/// The most tasks that one call of [`Worker::fail_without_tools`] fails.
pub const LACKING_BATCH: usize = 100;

/// What a worker can run: it claims only tasks whose model and tools it has. The default is
/// everything, for handlers that run no agents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Abilities {
    /// The names of models, with aliases; `*` stands for every name. `None` is every model.
    pub models: Option<Vec<String>>,
    /// The names of tools. `None` is every tool.
    pub tools: Option<Vec<String>>,
    /// The MCP servers that have not started, each with the reason, which people see.
    pub servers_down: BTreeMap<String, String>,
}

impl Worker {
    /// Publishes what the worker can run from now on.
    pub async fn set_abilities(&self, abilities: &Abilities) -> Result<()> {
        let Abilities { models, tools, servers_down } = abilities;
        self.calls
            .call(async |connection| {
                sqlx::query!(
                    "select set_abilities_1($1, $2, $3, $4)",
                    self.id.0,
                    models.as_deref(),
                    tools.as_deref(),
                    storable_json(json!(servers_down))
                )
                .execute(connection)
                .await
            })
            .await?;
        Ok(())
    }

    /// Finds out again what the worker can run, if a [poll](Worker::poll) says that this is
    /// outdated.
    pub async fn update_can(&self) -> Result<()> {
        self.calls
            .call(async |connection| {
                sqlx::query!("select update_can_1($1)", self.id.0).execute(connection).await
            })
            .await?;
        Ok(())
    }

    /// Fails queued tasks of this worker's pool that have waited for longer than the patience for
    /// tools that no living worker of the pool has; at most [`LACKING_BATCH`] of them.
    pub async fn fail_without_tools(&self, patience: Duration) -> Result<Vec<TaskId>> {
        let most = i32::try_from(LACKING_BATCH).unwrap_or(i32::MAX);
        let failed = self
            .calls
            .call(async |connection| {
                sqlx::query_scalar!(
                    r#"select fail_without_tools_1($1, make_interval(secs => $2), $3) as "failed!""#,
                    self.id.0,
                    patience.as_secs_f64(),
                    most
                )
                .fetch_one(connection)
                .await
            })
            .await?;
        if !failed.is_empty() {
            self.store.event_notifier.notify_all();
            self.store.wake_deliverer();
        }
        Ok(failed.into_iter().map(TaskId).collect())
    }
}
