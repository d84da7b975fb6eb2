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

/// The most tasks per page.
const MAX_PAGE: i64 = 1000;
/// The number of tasks that one query scans if the filter has no index.
const SCAN_LIMIT: i64 = 20_000;
/// A search that takes longer returns a short page.
pub(crate) const SEARCH_TIME: Duration = Duration::from_millis(500);

/// A filter of a tenant's tasks. `None` is no condition.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TaskFilter {
    pub tenant: String,
    pub state: Option<TaskState>,
    pub failure: Option<FailureKind>,
    pub agent: Option<String>,
    /// The session's public id.
    pub session: Option<String>,
    pub model: Option<String>,
    /// Created at this time or later.
    pub since: Option<DateTime<Utc>>,
    /// Created before this time.
    pub until: Option<DateTime<Utc>>,
    /// An id, or a task's name in its session, finds exactly those tasks. Any other text is
    /// searched in agents and labels, case-insensitively, and as a prefix of ids.
    pub q: Option<String>,
}

/// The end of a page. It holds only an id of the page, and can be used with any filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor(Uuid);

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.simple().fmt(f)
    }
}

impl Cursor {
    pub(crate) fn after(id: Uuid) -> Self {
        Self(id)
    }

    /// When the task that it names was spawned, by the clock that made its id.
    pub(crate) fn time(self) -> Option<DateTime<Utc>> {
        let (seconds, nanoseconds) = self.0.get_timestamp()?.to_unix();
        DateTime::from_timestamp(i64::try_from(seconds).ok()?, nanoseconds)
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
    Refusal::invalid("cursor", "must be the next_cursor of an earlier page")
}

/// A page of tasks, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = TaskPage)]
pub struct Page {
    pub tasks: Vec<TaskEntry>,
    /// The cursor of the next page; none on the last page. A filter that matches few of many tasks
    /// may give short or empty pages before the last one.
    pub next_cursor: Option<String>,
    /// How far back this page and those before it have searched: every matching task that was
    /// spawned later is in them. None on the last page: everything was searched.
    #[serde(serialize_with = "crate::timestamp::serialize_option")]
    pub searched_until: Option<DateTime<Utc>>,
    /// Whether the search took too long and stopped before the page was full. The next page
    /// goes on where it stopped.
    pub stopped_early: bool,
}

/// What a search found.
#[derive(Debug)]
pub(crate) struct Found {
    /// The newest first.
    pub(crate) ids: Vec<Uuid>,
    /// Where the next search goes on; none if this one has reached the end.
    pub(crate) next: Option<Cursor>,
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
    /// A tenant's tasks, newest first: at most `limit` after the cursor. A page is short if the
    /// scan took too long.
    pub async fn tasks(
        &self,
        filter: &TaskFilter,
        after: Option<&Cursor>,
        limit: i64,
    ) -> Result<Page> {
        let limit = limit.clamp(1, MAX_PAGE);
        let state = filter.state.map(TaskState::as_str);
        let Found { ids, next } = self.search(filter, state, after, limit).await?;
        Ok(Page {
            tasks: self.entries(&ids).await?,
            next_cursor: next.map(|cursor| cursor.to_string()),
            searched_until: next.and_then(Cursor::time),
            stopped_early: next.is_some() && i64::try_from(ids.len()).is_ok_and(|ids| ids < limit),
        })
    }

    /// The tasks after the cursor that match the filter, in this state instead of the filter's: at
    /// most `limit`, and fewer if the search took too long. The state may also be `unfinished` or
    /// `unsuccessful`.
    pub(crate) async fn search(
        &self,
        filter: &TaskFilter,
        state: Option<&str>,
        after: Option<&Cursor>,
        limit: i64,
    ) -> Result<Found> {
        check(filter)?;
        // One more, to learn whether there is a next page.
        let wanted = usize::try_from(limit).unwrap_or(usize::MAX) + 1;
        let (began, mut ids, mut reached) =
            (Instant::now(), Vec::new(), after.map(|cursor| cursor.0));
        let next = loop {
            let missing = i64::try_from(wanted - ids.len()).unwrap_or(1);
            let (found, stopped_at) = self.scan(filter, state, reached, missing).await?;
            ids.extend(found);
            reached = stopped_at;
            if ids.len() == wanted {
                ids.pop();
                break ids.last().copied();
            }
            if reached.is_none() || began.elapsed() > self.search_time {
                break reached;
            }
        };
        Ok(Found { ids, next: next.map(Cursor) })
    }

    /// The next tasks that match, and the id at which the scan stopped; none if it reached the end.
    async fn scan(
        &self,
        filter: &TaskFilter,
        state: Option<&str>,
        after: Option<Uuid>,
        limit: i64,
    ) -> Result<(Vec<Uuid>, Option<Uuid>)> {
        let row = self
            .call(async |connection| {
                sqlx::query!(
                    r#"select ids as "ids!", reached
                       from tasks_1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)"#,
                    filter.tenant,
                    state,
                    filter.failure.map(FailureKind::as_str),
                    filter.agent,
                    filter.session,
                    filter.model,
                    filter.since,
                    filter.until,
                    filter.q,
                    after,
                    limit,
                    if filter.is_by_index() { limit } else { SCAN_LIMIT }
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
                    r#"with why as materialized (
                           select w.task, jsonb_build_object('code', w.code, 'text', w.text, 'until', w.until) as why
                           from why_of_1(array(
                               select id
                               from task_status
                               where id = any($1) and finished_at is null
                                   and (lease_expires_at is null or may_be_lost_1(lease_expires_at) or retrying is not null)
                           )) w
                       )
                       select to_jsonb(e) || jsonb_build_object('why', (select w.why from why w where w.task = e.id))
                           as "entry!: Json<TaskEntry>"
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
    /// Whether an index finds exactly the matching tasks.
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
