use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use adjutant_agent::{FailureKind, Refusal, TaskId, TaskState, TaskView};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use sqlx::types::Json;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::text::refuse_nul_in;
use crate::{Result, Store};

/// The most tasks that one page has.
const MAX_PAGE: i64 = 1000;
/// How many tasks one query looks at for those that no index finds.
const REACH: i64 = 20_000;
/// How long they are looked for before the page is given as it is.
const PATIENCE: Duration = Duration::from_millis(500);

/// Which tasks of a tenant are asked for. `None` is no condition.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TaskFilter {
    pub tenant: String,
    pub state: Option<TaskState>,
    pub failure: Option<FailureKind>,
    pub agent: Option<String>,
    /// The session's name on the wire.
    pub session: Option<String>,
    pub model: Option<String>,
    /// Created at this time or later.
    pub since: Option<DateTime<Utc>>,
    /// Created before this time.
    pub until: Option<DateTime<Utc>>,
    /// An id or a task's name inside its session finds those tasks; anything else is looked for in agents and labels, in
    /// upper or lower case, and at the start of ids.
    pub q: Option<String>,
}

/// Where a page ended. It says nothing that the page did not, and is good for whatever filter it is used with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor(Uuid);

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.simple().fmt(f)
    }
}

impl FromStr for Cursor {
    type Err = Refusal;

    fn from_str(text: &str) -> std::result::Result<Self, Refusal> {
        text.parse()
            .ok()
            .map(Self)
            .filter(|cursor| cursor.to_string() == text)
            .ok_or_else(not_a_cursor)
    }
}

pub(crate) fn not_a_cursor() -> Refusal {
    Refusal::invalid("cursor", "is not one that a page had as its next_cursor")
}

/// Tasks, the newest first.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = TaskPage)]
pub struct Page {
    pub tasks: Vec<TaskEntry>,
    /// Where the next page begins, if there is one. What is rare among very many tasks takes several pages, and some of
    /// those may be short or empty: the last page is the one without this.
    pub next_cursor: Option<String>,
}

/// A task in a list of tasks: a row of the SQL view `task_entry`, without its texts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TaskEntry {
    #[serde(flatten)]
    pub task: TaskView,
    pub session_id: String,
    pub agent_version: i32,
    pub model: Option<String>,
    pub retry_of: Option<TaskId>,
    pub continues: Option<TaskId>,
}

impl Store {
    /// A tenant's tasks, the newest first: at most `limit` of those after the cursor. What takes long to find comes in several
    /// pages.
    pub async fn tasks(
        &self,
        filter: &TaskFilter,
        after: Option<&Cursor>,
        limit: i64,
    ) -> Result<Page> {
        check(filter)?;
        let limit = limit.clamp(1, MAX_PAGE);
        // One more tells whether there is a next page.
        let wanted = usize::try_from(limit).unwrap_or(usize::MAX) + 1;
        let (began, mut ids, mut reached) =
            (Instant::now(), Vec::new(), after.map(|cursor| cursor.0));
        let next = loop {
            let missing = i64::try_from(wanted - ids.len()).unwrap_or(1);
            let (found, further) = self.step(filter, reached, missing).await?;
            ids.extend(found);
            reached = further;
            if ids.len() == wanted {
                ids.pop();
                break ids.last().copied();
            }
            if reached.is_none() || began.elapsed() > PATIENCE {
                break reached;
            }
        };
        Ok(Page {
            tasks: self.entries(&ids).await?,
            next_cursor: next.map(|id| Cursor(id).to_string()),
        })
    }

    /// The next tasks that fit, and how far this looked; none if it saw the last one.
    async fn step(
        &self,
        filter: &TaskFilter,
        after: Option<Uuid>,
        limit: i64,
    ) -> Result<(Vec<Uuid>, Option<Uuid>)> {
        let row = self
            .call(async |connection| {
                sqlx::query!(
                    r#"select ids as "ids!", reached
                       from tasks_1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)"#,
                    filter.tenant,
                    filter.state.map(TaskState::as_str),
                    filter.failure.map(FailureKind::as_str),
                    filter.agent,
                    filter.session,
                    filter.model,
                    filter.since,
                    filter.until,
                    filter.q,
                    after,
                    limit,
                    if filter.is_by_index() { limit } else { REACH }
                )
                .fetch_one(connection)
                .await
            })
            .await?;
        Ok((row.ids, row.reached))
    }

    async fn entries(&self, ids: &[Uuid]) -> Result<Vec<TaskEntry>> {
        let entries = self
            .call(async |connection| {
                sqlx::query_scalar!(
                    r#"select to_jsonb(e) as "entry!: Json<TaskEntry>"
                       from task_entry e
                       where id = any($1)
                       order by id desc"#,
                    ids
                )
                .fetch_all(connection)
                .await
            })
            .await?;
        Ok(entries.into_iter().map(|entry| entry.0).collect())
    }
}

impl TaskFilter {
    /// Whether every task that is looked at is one that is asked for.
    fn is_by_index(&self) -> bool {
        self.agent.is_none() && self.model.is_none() && self.q.is_none()
    }
}

fn check(filter: &TaskFilter) -> std::result::Result<(), Refusal> {
    let texts = [
        ("tenant", Some(&filter.tenant)),
        ("agent", filter.agent.as_ref()),
        ("session", filter.session.as_ref()),
        ("model", filter.model.as_ref()),
        ("q", filter.q.as_ref()),
    ];
    for (field, text) in texts {
        if let Some(text) = text {
            refuse_nul_in(field, text)?;
        }
    }
    Ok(())
}
