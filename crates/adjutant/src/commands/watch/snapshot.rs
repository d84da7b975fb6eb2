use chrono::{TimeDelta, Utc};
use serde_json::{Value, json};

use crate::client::{Answer, CallError, Client};
use crate::moment::as_rfc3339;
use crate::table::{items, text};

/// The most of each kind; a terminal has fewer lines.
const MOST: &str = "100";

/// Tasks that left the lists between two looks are asked for one by one, up to so many.
const STRAYS: usize = 50;

/// How everything stood at one moment.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Of the last day.
    pub stats: Value,
    /// The newest first, and those that run before them.
    pub tasks: Vec<Value>,
}

impl Snapshot {
    /// Asks the server. Tasks that are expected are there, wherever they went.
    pub async fn take(
        client: &Client,
        session: Option<&str>,
        expected: &[String],
    ) -> Result<Self, CallError> {
        let since = Utc::now() - TimeDelta::days(1);
        let stats = client.get(&["v1", "stats"], vec![("since", as_rfc3339(since))]).await?;
        let running = list(client, session, Some("running")).await?;
        let newest = list(client, session, None).await?;
        let mut tasks = items(&running.value, "tasks").to_vec();
        // A task that changed between the two answers is as the second has it.
        let newest = items(&newest.value, "tasks");
        tasks.retain(|task| !newest.iter().any(|other| other["id"] == task["id"]));
        tasks.extend(newest.iter().cloned());
        let gone = expected.iter().filter(|id| !tasks.iter().any(|task| text(task, "id") == **id));
        let gone: Vec<&String> = gone.take(STRAYS).collect();
        for id in gone {
            match client.get(&["v1", "tasks", id], Vec::new()).await {
                Ok(answer) => tasks.push(answer.value),
                // Deleted with its session.
                Err(error) if error.has_code("TASK_NOT_FOUND") => {}
                Err(error) => return Err(error),
            }
        }
        tasks.sort_by_key(|task| {
            (text(task, "state") != "running", std::cmp::Reverse(text(task, "created_at")))
        });
        Ok(Self { stats: stats.value, tasks })
    }

    pub fn as_json(&self) -> String {
        json!({"stats": self.stats, "tasks": self.tasks}).to_string()
    }
}

async fn list(client: &Client, session: Option<&str>, state: Option<&str>) -> Result<Answer, CallError> {
    let mut query = vec![("limit", MOST.to_owned())];
    query.extend(session.map(|session| ("session", session.to_owned())));
    query.extend(state.map(|state| ("state", state.to_owned())));
    client.get(&["v1", "tasks"], query).await
}
