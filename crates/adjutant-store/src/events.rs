use adjutant_agent::{
    ErrorCode, EventKind, FailureKind, Refusal, SessionId, Spent, TaskId, TaskNumber, TurnKind,
};
use chrono::{DateTime, Utc};

use crate::status::known;
use crate::{Result, Store};

/// An event of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its number in the session: 1, 2, 3 ... without gaps.
    pub number: i64,
    pub task: TaskId,
    pub task_number: TaskNumber,
    pub kind: EventKind,
    pub at: DateTime<Utc>,
    /// The attempt that caused it; none if the task was not running.
    pub attempt: Option<i32>,
    /// When that attempt began; set in its first event. If that event is not
    /// [`EventKind::Started`], it implies one.
    pub started_at: Option<DateTime<Utc>>,
    /// The turn that was stored, or whose tool was called.
    pub turn: Option<i32>,
    pub answer: Option<StoredAnswer>,
    pub tool: Option<UsedTool>,
    /// Of [`EventKind::Retrying`]: what went wrong.
    pub detail: Option<String>,
    pub failure: Option<FailureKind>,
    pub error: Option<String>,
    /// The use of the task, if it has ended.
    pub spent: Option<Spent>,
    /// The task's agent.
    pub agent: String,
    /// The W3C trace context of the task.
    pub traceparent: Option<String>,
    /// The assignment of the task.
    pub assignment: TextRef,
    /// The result of a completed task, in its end event.
    pub result: Option<TextRef>,
}

/// A text of a task: its size, and the text itself if the reader wants texts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TextRef {
    pub bytes: i32,
    pub text: Option<String>,
}

/// Whether events contain the texts of their tasks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EventTexts {
    /// Only their sizes.
    #[default]
    Omitted,
    Included,
}

/// Which events of a session to read.
#[derive(Debug, Clone, Copy)]
pub struct EventQuery {
    /// Only the events of this task.
    pub task: Option<TaskId>,
    /// Only events with greater numbers.
    pub after: i64,
    pub limit: i64,
    pub texts: EventTexts,
}

/// The turn of a `turn` event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAnswer {
    pub kind: TurnKind,
    pub model: Option<String>,
    pub spent: Spent,
    pub duration_ms: i64,
}

/// The tool call of a `tool` event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsedTool {
    pub name: Option<String>,
    pub is_error: bool,
}

/// A page of a session's events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventPage {
    pub events: Vec<Event>,
    /// All events up to this number were considered: the next page starts after it.
    pub upto: i64,
}

/// The session of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskSession {
    pub session: SessionId,
    pub session_name: String,
}

impl Store {
    /// The events of a session after the number `after`, in order and without gaps.
    pub async fn events(&self, session: SessionId, after: i64, limit: i64) -> Result<Vec<Event>> {
        let query = EventQuery { task: None, after, limit, texts: EventTexts::Omitted };
        Ok(self.event_page(session, query).await?.events)
    }

    /// Like [`Store::events`], optionally of one task, with the number to continue from. Numbers
    /// are assigned under the session's lock and commit with their rows, so that all events below
    /// the session's next number are visible.
    pub async fn event_page(&self, session: SessionId, query: EventQuery) -> Result<EventPage> {
        let EventQuery { task, after, limit, texts } = query;
        let rows = self
            .call(async |connection| {
                sqlx::query_file!(
                    "src/events/page.sql",
                    session.0,
                    after,
                    task.map(|task| task.0),
                    limit,
                    texts == EventTexts::Included
                )
                .fetch_all(connection)
                .await
            })
            .await?;
        let Some(newest) = rows.first().map(|row| row.newest) else {
            return Err(Refusal::new(ErrorCode::SessionNotFound, "Session not found").into());
        };
        let mut events = Vec::with_capacity(rows.len());
        for row in rows {
            let (Some(number), Some(task), Some(task_number), Some(kind), Some(at)) =
                (row.seq, row.task, row.number, row.kind, row.at)
            else {
                continue;
            };
            let kind: EventKind = known(&kind)?;
            let turn_kind = row.turn_kind.as_deref().map(known).transpose()?;
            let failed = kind == EventKind::Failed;
            events.push(Event {
                number,
                task: TaskId(task),
                task_number: TaskNumber(task_number),
                kind,
                at,
                attempt: row.attempt,
                started_at: row.started_at,
                turn: row.turn,
                answer: turn_kind.map(|kind| StoredAnswer {
                    kind,
                    model: row.model,
                    spent: spent(row.turn_input, row.turn_output, row.turn_cost),
                    duration_ms: row.duration_ms.unwrap_or_default(),
                }),
                tool: row.is_error.map(|is_error| UsedTool { name: row.tool, is_error }),
                detail: row.detail,
                failure: row.failure.as_deref().filter(|_| failed).map(known).transpose()?,
                error: row.error.filter(|_| failed),
                spent: kind
                    .is_terminal()
                    .then(|| spent(row.task_input, row.task_output, row.task_cost)),
                agent: row.agent.unwrap_or_default(),
                traceparent: row.traceparent,
                assignment: TextRef {
                    bytes: row.assignment_bytes.unwrap_or_default(),
                    text: row.assignment,
                },
                result: row
                    .result_bytes
                    .filter(|_| kind == EventKind::Completed)
                    .map(|bytes| TextRef { bytes, text: row.result }),
            });
        }
        let is_whole = i64::try_from(events.len()).is_ok_and(|length| length < limit);
        let last = events.last().map_or(after, |event| event.number);
        Ok(EventPage { events, upto: if is_whole { newest } else { last } })
    }

    /// The sessions that have events after the given number, with the number of their newest event.
    /// A deleted session is returned with `i64::MAX`, unless that is the given number.
    pub async fn newest_events(&self, known: &[(SessionId, i64)]) -> Result<Vec<(SessionId, i64)>> {
        let (sessions, numbers): (Vec<i64>, Vec<i64>) =
            known.iter().map(|(session, number)| (session.0, *number)).unzip();
        let rows = self
            .call(async |connection| {
                sqlx::query!(
                    r#"select k.session as "session!", n.newest as "newest!"
                       from unnest($1::bigint[], $2::bigint[]) k (session, number)
                       cross join lateral (
                           select coalesce(
                               (select s.next_event - 1 from session s where s.id = k.session), 9223372036854775807
                           ) as newest
                       ) n
                       where n.newest > k.number"#,
                    &sessions,
                    &numbers
                )
                .fetch_all(connection)
                .await
            })
            .await?;
        Ok(rows.into_iter().map(|row| (SessionId(row.session), row.newest)).collect())
    }

    /// Whether a task has ended, or does not exist.
    pub async fn has_ended(&self, task: TaskId) -> Result<bool> {
        let ended = self
            .call(async |connection| {
                sqlx::query_scalar!(
                    r#"select t.finished_at is not null as "ended!"
                       from task t
                       join session s on s.id = t.session
                       where t.id = $1"#,
                    task.0
                )
                .fetch_optional(connection)
                .await
            })
            .await?;
        Ok(ended.unwrap_or(true))
    }

    /// The session of a tenant's task.
    pub async fn task_session(&self, tenant: &str, task: TaskId) -> Result<TaskSession> {
        let row = self
            .call(async |connection| {
                sqlx::query!(
                    "select s.id, s.name
                       from task t
                       join session s on s.id = t.session
                       where t.id = $1 and s.tenant = $2",
                    task.0,
                    tenant
                )
                .fetch_optional(connection)
                .await
            })
            .await?;
        match row {
            Some(row) => Ok(TaskSession { session: SessionId(row.id), session_name: row.name }),
            None => {
                Err(Refusal::new(ErrorCode::TaskNotFound, format!("Task not found: {task}")).into())
            }
        }
    }
}

fn spent(
    input_tokens: Option<i64>,
    output_tokens: Option<i64>,
    cost_nanousd: Option<i64>,
) -> Spent {
    Spent {
        input_tokens: input_tokens.unwrap_or_default(),
        output_tokens: output_tokens.unwrap_or_default(),
        cost_nanousd: cost_nanousd.unwrap_or_default(),
    }
}
