use adjutant_agent::AgentDefinition;
use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;

use crate::agents::storable;
use crate::{Result, Store};

/// The name of every config that sets none.
pub const DEFAULT_CONFIG: &str = "default";

/// A process that publishes agents. They belong to its config: what other processes of the config
/// publish stays, and so do the agents of other configs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publisher {
    process: Uuid,
    config: String,
    name: String,
}

impl Publisher {
    /// `config` is the name of the config, `name` that of the process, for people.
    pub fn new(config: impl Into<String>, name: impl Into<String>) -> Self {
        Self { process: Uuid::now_v7(), config: config.into(), name: name.into() }
    }

    /// All embedding programs together.
    fn embedding() -> Self {
        Self {
            process: Uuid::nil(),
            config: DEFAULT_CONFIG.to_owned(),
            name: "embedding".to_owned(),
        }
    }
}

/// The agents of one config, and the processes that publish them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedConfig {
    pub name: String,
    /// The names of its agents.
    pub agents: Vec<String>,
    /// How many processes publish them now.
    pub processes: i64,
    /// The process that was seen last, if it was in the last 7 days.
    pub last_process: Option<String>,
    pub last_seen_at: Option<DateTime<Utc>>,
    /// The agents that running processes define differently. The newest definition is in effect.
    pub differing: Vec<String>,
}

impl Store {
    /// Replaces the agents that embedding programs have published, under the config name `default`.
    /// If other processes publish agents under that name, repeat the call every minute, or use a
    /// name of your own with [`Store::publish_agents_as`].
    pub async fn publish_agents(&self, agents: &[AgentDefinition]) -> Result<()> {
        self.publish_agents_as(&Publisher::embedding(), agents).await
    }

    /// Sets the agents that a process publishes. All sessions have them; a changed agent gets a new
    /// version. Refused if a running process of another config has one of the names.
    pub async fn publish_agents_as(
        &self,
        publisher: &Publisher,
        agents: &[AgentDefinition],
    ) -> Result<()> {
        let definitions = agents.iter().map(storable).collect::<Result<Vec<_>>>()?;
        let Publisher { process, config, name } = publisher;
        self.call(async |connection| {
            sqlx::query!(
                "select publish_agents_1($1, $2, $3, $4)",
                process,
                config,
                name,
                Value::Array(definitions)
            )
            .execute(connection)
            .await
        })
        .await?;
        Ok(())
    }

    /// Reports that a process still runs, every 15 s. If it is false, the process has to publish
    /// again.
    pub async fn keep_published(&self, publisher: &Publisher) -> Result<bool> {
        self.call(async |connection| {
            sqlx::query_scalar!(r#"select keep_published_1($1) as "kept!""#, publisher.process)
                .fetch_one(connection)
                .await
        })
        .await
    }

    /// Ends the publishing of a process that stops. The agents of the last one of a config stay.
    pub async fn stop_publishing(&self, publisher: &Publisher) -> Result<()> {
        self.call(async |connection| {
            sqlx::query!("select stop_publishing_1($1)", publisher.process)
                .execute(connection)
                .await
        })
        .await?;
        Ok(())
    }

    /// Who publishes which agents, by the names of the configs.
    pub async fn published_configs(&self) -> Result<Vec<PublishedConfig>> {
        self.call(async |connection| {
            sqlx::query_as!(
                PublishedConfig,
                r#"select published.name as "name!", published.agents as "agents!",
                    (
                        select count(*)
                        from publisher p
                        where p.config = published.name and is_publishing_1(p.seen_at, p.stopped_at)
                    ) as "processes!",
                    last.name as "last_process?", last.seen_at as "last_seen_at?",
                    array(
                        select d ->> 'name'
                        from publisher p
                        cross join jsonb_array_elements(p.definitions) d
                        where p.config = published.name and is_publishing_1(p.seen_at, p.stopped_at)
                        group by d ->> 'name'
                        having count(distinct d) > 1
                        order by d ->> 'name'
                    ) as "differing!"
                from (
                    select a.publisher as name, array_agg(a.name order by a.name) as agents
                    from published_agent a
                    group by a.publisher
                ) published
                left join lateral (
                    select p.name, p.seen_at
                    from publisher p
                    where p.config = published.name
                    order by p.seen_at desc
                    limit 1
                ) last on true
                order by published.name"#
            )
            .fetch_all(connection)
            .await
        })
        .await
    }
}
