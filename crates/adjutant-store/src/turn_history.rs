use adjutant_agent::{Answer, Arguments, Refusal, TaskId, TurnKind};
use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;
use sqlx::types::Json;
use utoipa::ToSchema;

use crate::history::not_a_cursor;
use crate::stats::usd;
use crate::status::known;
use crate::{Result, Store};

/// The most turns per page.
const MAX_PAGE: i64 = 200;

/// A page of a task's turns, in order.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct TurnPage {
    pub turns: Vec<TurnRecord>,
    /// The cursor of the next page; none on the last page.
    pub next_cursor: Option<String>,
}

/// A turn for display: the model's text, its tool calls and their results.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = Turn)]
pub struct TurnRecord {
    pub number: i32,
    pub attempt: i32,
    pub kind: TurnKind,
    pub model: Option<String>,
    pub text: Option<String>,
    pub tool_calls: Vec<CallRecord>,
    pub input_tokens: i64,
    pub output_tokens: i64,
    pub cache_read_tokens: i64,
    pub cache_write_tokens: i64,
    pub cost_usd: f64,
    /// The provider did not report all tokens, so some are estimated.
    pub usage_estimated: bool,
    pub duration_ms: i64,
    #[serde(serialize_with = "crate::timestamp::serialize")]
    pub at: DateTime<Utc>,
}

#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = ToolUse)]
pub struct CallRecord {
    pub id: String,
    pub name: String,
    /// A string if the model's arguments are no valid JSON.
    pub arguments: Value,
    /// None while the tool runs, or if the call has no stored result.
    pub result: Option<ResultRecord>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = ToolResult)]
pub struct ResultRecord {
    pub content: String,
    pub is_error: bool,
    pub duration_ms: i64,
    #[serde(serialize_with = "crate::timestamp::serialize")]
    pub at: DateTime<Utc>,
}

impl Store {
    /// The turns of a tenant's task: at most `limit` after the cursor, which is the `next_cursor`
    /// of the page before.
    pub async fn task_turns(
        &self,
        tenant: &str,
        task: TaskId,
        cursor: Option<&str>,
        limit: i64,
    ) -> Result<TurnPage> {
        self.find_task(tenant, task).await?;
        let after = cursor.map_or(Ok(0), parse_cursor)?;
        let limit = limit.clamp(1, MAX_PAGE);
        let mut turns = self.turn_records(task, after, limit + 1).await?;
        let length = usize::try_from(limit).unwrap_or(usize::MAX);
        let more = turns.len() > length;
        turns.truncate(length);
        let next_cursor = turns.last().filter(|_| more).map(|last| last.number.to_string());
        if let (Some(first), Some(last)) = (turns.first(), turns.last()) {
            let numbers = (first.number, last.number);
            self.add_results(task, numbers, &mut turns).await?;
        }
        Ok(TurnPage { turns, next_cursor })
    }

    async fn turn_records(&self, task: TaskId, after: i32, limit: i64) -> Result<Vec<TurnRecord>> {
        let rows = self
            .call(async |connection| {
                sqlx::query!(
                    r#"select u.number, u.attempt, u.kind, u.message as "message: Json<Answer>", u.model, u.input_tokens,
                        u.output_tokens, u.cache_read_tokens, u.cache_write_tokens, u.cost_nanousd, u.usage_estimated, u.duration_ms, u.at
                       from turn u
                       where u.task = $1 and u.number > $2
                           and u.at >= (select created_at - interval '1 day' from task where id = $1)
                       order by u.number
                       limit $3"#,
                    task.0,
                    after,
                    limit
                )
                .fetch_all(connection)
                .await
            })
            .await?;
        let mut turns = Vec::with_capacity(rows.len());
        for row in rows {
            turns.push(TurnRecord {
                number: row.number,
                attempt: row.attempt,
                kind: known(&row.kind)?,
                model: row.model,
                text: row.message.0.text(),
                tool_calls: calls(&row.message.0),
                input_tokens: row.input_tokens,
                output_tokens: row.output_tokens,
                cache_read_tokens: row.cache_read_tokens,
                cache_write_tokens: row.cache_write_tokens,
                cost_usd: usd(row.cost_nanousd),
                usage_estimated: row.usage_estimated,
                duration_ms: row.duration_ms,
                at: row.at,
            });
        }
        Ok(turns)
    }

    async fn add_results(
        &self,
        task: TaskId,
        (first, last): (i32, i32),
        turns: &mut [TurnRecord],
    ) -> Result<()> {
        let rows = self
            .call(async |connection| {
                sqlx::query!(
                    "select r.turn, r.call, r.content, r.is_error, r.duration_ms, r.at
                     from tool_result r
                     where r.task = $1 and r.turn between $2 and $3
                         and r.at >= (select created_at - interval '1 day' from task where id = $1)",
                    task.0,
                    first,
                    last
                )
                .fetch_all(connection)
                .await
            })
            .await?;
        for row in rows {
            let calls = turns
                .iter_mut()
                .filter(|turn| turn.number == row.turn)
                .flat_map(|turn| &mut turn.tool_calls);
            for call in calls.filter(|call| call.id == row.call) {
                call.result = Some(ResultRecord {
                    content: row.content.clone(),
                    is_error: row.is_error,
                    duration_ms: row.duration_ms,
                    at: row.at,
                });
            }
        }
        Ok(())
    }
}

fn calls(answer: &Answer) -> Vec<CallRecord> {
    let record = |call: &adjutant_agent::ToolUse| CallRecord {
        id: call.id.clone(),
        name: call.name.clone(),
        arguments: match &call.arguments {
            Arguments::Json(arguments) => arguments.clone(),
            Arguments::Malformed(text) | Arguments::CutOff(text) => Value::String(text.clone()),
        },
        result: None,
    };
    answer.tool_uses().map(record).collect()
}

/// The number of the turn that a cursor names.
fn parse_cursor(cursor: &str) -> std::result::Result<i32, Refusal> {
    let turn: Option<i32> = cursor.parse().ok();
    turn.filter(|turn| *turn > 0 && turn.to_string() == cursor).ok_or_else(not_a_cursor)
}
