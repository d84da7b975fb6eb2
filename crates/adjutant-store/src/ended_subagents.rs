use adjutant_agent::dialects::xzatoma::{Event, Telemetry, of_end};
use adjutant_agent::dialects::{DIALECT, EndedTask};
use adjutant_agent::{Outcome, SessionId, Spent, TaskId, TaskNumber, TaskState};
use chrono::{DateTime, Utc};
use serde_json::Map;
use sqlx::types::Json;

use crate::status::known;
use crate::{Error, Result, Store};

/// The dialect that tells of its subagents.
const TELLS: &str = "xzatoma";

/// What there is to tell of a subagent that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedSubagent {
    pub label: String,
    pub events: Vec<Event>,
}

impl EndedSubagent {
    pub fn tell(&self) {
        for event in &self.events {
            event.tell(&self.label);
        }
    }
}

/// A task that has ended, and what its configuration says of telling that.
struct Row {
    session: i64,
    number: i32,
    agent: String,
    label: Option<String>,
    depth: i16,
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
    telemetry: Json<Telemetry>,
}

impl Store {
    /// What there is to tell of those of these tasks that have ended and whose ends are told. For whoever has stored the ends, and
    /// for nobody else: so each is told once.
    pub async fn ended_subagents(&self, tasks: &[TaskId]) -> Result<Vec<EndedSubagent>> {
        let tasks: Vec<_> = tasks.iter().map(|task| task.0).collect();
        let rows = self
            .call(async |connection| {
                sqlx::query_as!(
                    Row,
                    r#"select
                        session, number, agent, label, depth, state as "state!: String", failure as "failure: String", error,
                        result, summary, partial_result, turns_used, answers, input_tokens, output_tokens, cost_nanousd,
                        finished_at as "finished_at!", (config ->> 'max_turns')::integer as "max_turns!",
                        config -> 'telemetry' as "telemetry!: Json<Telemetry>"
                       from task
                       where id = any($1) and finished_at is not null and config ? 'telemetry' and metadata ->> $2 = $3
                       order by session, number"#,
                    &tasks,
                    DIALECT,
                    TELLS
                )
                .fetch_all(connection)
                .await
            })
            .await?;
        let mut ended = Vec::with_capacity(rows.len());
        for mut row in rows {
            let (label, telemetry) = (row.label.take().unwrap_or_default(), row.telemetry.0);
            let (session, max_turns, at) = (SessionId(row.session), row.max_turns, row.finished_at);
            let mut events = of_end(&row.ended()?, max_turns, &telemetry);
            if telemetry.max_total_tokens.is_some() {
                events.extend(telemetry.of_tokens(self.tokens_until(session, TELLS, at).await?));
            }
            ended.push(EndedSubagent { label, events });
        }
        Ok(ended)
    }
}

impl Row {
    fn ended(self) -> Result<EndedTask> {
        let failure = self.failure.as_deref().map(known).transpose()?;
        let outcome = match (known(&self.state)?, self.result, failure) {
            (TaskState::Completed, Some(result), _) => Outcome::Completed { result, summary: self.summary },
            (TaskState::Failed, _, Some(failure)) => Outcome::Failed {
                failure,
                error: self.error.unwrap_or_default(),
                partial_result: self.partial_result,
            },
            (TaskState::Cancelled, _, _) => Outcome::Cancelled { partial_result: self.partial_result },
            _ => return Err(Error::Unexpected(sqlx::Error::Decode("the end of a task is not whole".into()))),
        };
        Ok(EndedTask {
            number: TaskNumber(self.number),
            agent: self.agent,
            label: self.label,
            depth: self.depth,
            metadata: Map::new(),
            outcome,
            turns_used: self.turns_used,
            answers: self.answers,
            spent: Spent {
                input_tokens: self.input_tokens,
                output_tokens: self.output_tokens,
                cost_nanousd: self.cost_nanousd,
            },
        })
    }
}
