use adjutant_agent::{
    Depth, EndedTask, Outcome, OutcomeParts, SessionId, Spent, TaskId, TaskNumber,
};
use chrono::{DateTime, Utc};
use serde_json::{Map, Value};

use crate::status::known;
use crate::{Error, Result, Store};

/// An ended task whose configuration has settings for the log entry of its end.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggedEnd {
    pub session: SessionId,
    /// The dialect that the task was spawned in.
    pub dialect: String,
    pub task: EndedTask,
    pub finished_at: DateTime<Utc>,
    pub max_turns: i32,
    /// The settings, as the dialect wrote them.
    pub telemetry: Value,
}

struct Row {
    session: i64,
    number: i32,
    agent: String,
    label: Option<String>,
    depth: i16,
    dialect: String,
    state: String,
    failure: Option<String>,
    error: Option<String>,
    result: Option<String>,
    summary: Option<String>,
    partial_result: Option<String>,
    turns_used: i32,
    answers: i32,
    input_tokens: i64,
    output_tokens: i64,
    cost_nanousd: i64,
    finished_at: DateTime<Utc>,
    max_turns: i32,
    telemetry: Value,
}

impl Store {
    /// The ended tasks among these whose ends are logged.
    pub async fn logged_ends(&self, tasks: &[TaskId]) -> Result<Vec<LoggedEnd>> {
        let tasks: Vec<_> = tasks.iter().map(|task| task.0).collect();
        let rows = self
            .call(async |connection| {
                sqlx::query_as!(
                    Row,
                    r#"select
                        session, number, agent, label, depth, metadata ->> 'dialect' as "dialect!",
                        state as "state!: String", failure as "failure: String", error, result, summary, partial_result,
                        turns_used, answers, input_tokens, output_tokens, cost_nanousd,
                        finished_at as "finished_at!", (config ->> 'max_turns')::integer as "max_turns!",
                        config -> 'telemetry' as "telemetry!"
                       from task
                       where id = any($1) and finished_at is not null and config ? 'telemetry' and metadata ? 'dialect'
                       order by session, number"#,
                    &tasks
                )
                .fetch_all(connection)
                .await
            })
            .await?;
        rows.into_iter().map(Row::end).collect()
    }
}

impl Row {
    fn end(self) -> Result<LoggedEnd> {
        let parts = OutcomeParts {
            result: self.result,
            summary: self.summary,
            failure: self.failure.as_deref().map(known).transpose()?,
            error: self.error,
            partial_result: self.partial_result,
        };
        let incomplete =
            || Error::Unexpected(sqlx::Error::Decode("the end of a task is incomplete".into()));
        let outcome = Outcome::of(known(&self.state)?, parts).ok_or_else(incomplete)?;
        let task = EndedTask {
            number: TaskNumber(self.number),
            agent: self.agent,
            label: self.label,
            depth: Depth(self.depth),
            metadata: Map::new(),
            outcome,
            turns_used: self.turns_used,
            answers: self.answers,
            spent: Spent {
                input_tokens: self.input_tokens,
                output_tokens: self.output_tokens,
                cost_nanousd: self.cost_nanousd,
            },
        };
        Ok(LoggedEnd {
            session: SessionId(self.session),
            dialect: self.dialect,
            task,
            finished_at: self.finished_at,
            max_turns: self.max_turns,
            telemetry: self.telemetry,
        })
    }
}
