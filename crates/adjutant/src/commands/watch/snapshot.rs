use chrono::{TimeDelta, Utc};
use serde_json::{Value, json};

use crate::client::{Answer, CallError, Client};
use crate::moment::as_rfc3339;
use crate::table::{items, text};

/// The most tasks of each list; a terminal has fewer lines.
const PAGE_SIZE: &str = "100";

/// The most tasks that are requested one by one because they left the lists between two snapshots.
const MAX_LOOKUPS: usize = 50;

/// The state of the fleet and its tasks at one time.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Statistics of the last day.
    pub stats: Value,
    /// Running tasks first, then the newest.
    pub tasks: Vec<Value>,
}

impl Snapshot {
    /// Requests a snapshot. It includes the expected tasks, even if they are no longer in the
    /// lists.
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
        // For a task in both answers, the second is newer.
        let newest = items(&newest.value, "tasks");
        tasks.retain(|task| !newest.iter().any(|other| other["id"] == task["id"]));
        tasks.extend(newest.iter().cloned());
        let missing =
            expected.iter().filter(|id| !tasks.iter().any(|task| text(task, "id") == **id));
        let missing: Vec<&String> = missing.take(MAX_LOOKUPS).collect();
        for id in missing {
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

async fn list(
    client: &Client,
    session: Option<&str>,
    state: Option<&str>,
) -> Result<Answer, CallError> {
    let mut query = vec![("limit", PAGE_SIZE.to_owned())];
    query.extend(session.map(|session| ("session", session.to_owned())));
    query.extend(state.map(|state| ("state", state.to_owned())));
    client.get(&["v1", "tasks"], query).await
}
