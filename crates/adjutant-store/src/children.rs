//! What an agent that delegates does with its children. It sees those of its own task, and nobody else's.

use std::time::Duration;

use adjutant_agent::{
    Child, ErrorCode, LeaseId, Outcome, Refusal, Spent, TaskId, TaskNumber, TaskState, ToolResult,
};
use serde_json::{Value, json};

use crate::batch::check_batch;
use crate::delegate::{check_task, json as json_of, row};
use crate::spawn::{Made, to_row};
use crate::status::known;
use crate::{Lease, NewDelegation, NewTask, Operator, Result, Spawned, tool_result};

/// What `task_history` gives for a child.
macro_rules! child_of {
    ($row:expr) => {
        Child {
            id: TaskId($row.id),
            number: TaskNumber($row.number),
            agent: $row.agent,
            label: $row.label,
            state: known(&$row.state)?,
            failure: $row.failure.as_deref().map(known).transpose()?,
            error: $row.error,
            turns_used: $row.turns_used,
            answers: $row.answers,
            spent: Spent {
                input_tokens: $row.input_tokens,
                output_tokens: $row.output_tokens,
                cost_nanousd: $row.cost_nanousd,
            },
            collected: $row.collected,
        }
    };
}

impl Lease {
    /// Gives children of the leased task to agents of its session, all or none. `call` is what asks for them, in the last turn:
    /// asking again gets the same children, whatever has become of them.
    pub async fn delegate(
        &self,
        call: &str,
        new: &[NewDelegation],
        operator: &Operator,
    ) -> Result<Vec<Spawned>> {
        let tasks: Vec<NewTask> = new.iter().map(|new| new.task.clone()).collect();
        tasks.iter().try_for_each(|task| check_task(&task.assignment))?;
        check_batch(&tasks)?;
        let rows = new.iter().map(row).collect::<Result<Vec<_>>>()?;
        self.place(call, &tasks, rows, json_of(operator)?).await
    }

    /// Makes children of the leased task that have their configurations already, all or none; otherwise as [`Lease::delegate`].
    pub async fn spawn_by_call(&self, call: &str, children: &[NewTask]) -> Result<Vec<Spawned>> {
        check_batch(children)?;
        let rows = children.iter().map(to_row).collect::<std::result::Result<Vec<_>, _>>()?;
        self.place(call, children, rows, json!({})).await
    }

    async fn place(
        &self,
        call: &str,
        tasks: &[NewTask],
        rows: Vec<Value>,
        operator: Value,
    ) -> Result<Vec<Spawned>> {
        let notices = self.store.notices_of(tasks);
        let call = format!("{}:{}", self.answers, crate::text::storable(call.to_owned()));
        let made = self
            .store
            .call(async |connection| {
                sqlx::query_as!(
                    Made,
                    r#"select id as "id!", number as "number!", state as "state!", queue_position
                       from delegate_children_1($1, $2, $3, $4, $5, $6, $7, $8)"#,
                    self.session.0,
                    self.slot,
                    self.task.0,
                    self.id.0,
                    call,
                    Value::Array(rows),
                    operator,
                    &notices,
                )
                .fetch_all(connection)
                .await
            })
            .await?;
        self.store.audience.happened([self.session]);
        made.into_iter().map(Made::spawned).collect()
    }

    /// How the children stand, in the order in which they were spawned.
    pub async fn children(&self) -> Result<Vec<Child>> {
        let rows = self
            .store
            .call(async |connection| {
                sqlx::query!(
                    r#"select id as "id!", number as "number!", agent as "agent!", label, state as "state!", failure, error,
                        turns_used as "turns_used!", (select t.answers from task t where t.id = h.id) as "answers!", input_tokens as "input_tokens!",
                        output_tokens as "output_tokens!", cost_nanousd as "cost_nanousd!", collected_at is not null as "collected!"
                       from task_history h
                       where parent = $1
                       order by number"#,
                    self.task.0
                )
                .fetch_all(connection)
                .await
            })
            .await?;
        let mut children = Vec::with_capacity(rows.len());
        for row in rows {
            children.push(child_of!(row));
        }
        Ok(children)
    }

    /// A child that has ended, and what came of it; collecting it is another step. One that was collected is not found.
    pub async fn outcome_of_child(&self, number: TaskNumber) -> Result<(Child, Outcome)> {
        let not_found = || Refusal::new(ErrorCode::TaskNotFound, format!("Task not found: {number}"));
        let row = self
            .store
            .call(async |connection| {
                sqlx::query!(
                    r#"select id as "id!", number as "number!", agent as "agent!", label, state as "state!", failure, error,
                        turns_used as "turns_used!", (select t.answers from task t where t.id = h.id) as "answers!", input_tokens as "input_tokens!",
                        output_tokens as "output_tokens!", cost_nanousd as "cost_nanousd!", collected_at is not null as "collected!", result, summary, partial_result
                       from task_history h
                       where session = $1 and number = $2 and parent = $3 and collected_at is null"#,
                    self.session.0,
                    number.0,
                    self.task.0
                )
                .fetch_optional(connection)
                .await
            })
            .await?;
        let mut row = row.ok_or_else(not_found)?;
        let (result, summary, partial_result) =
            (row.result.take(), row.summary.take(), row.partial_result.take());
        let child = child_of!(row);
        let outcome = match (child.state, result, child.failure, &child.error) {
            (TaskState::Completed, Some(result), _, _) => Outcome::Completed { result, summary },
            (TaskState::Failed, _, Some(failure), Some(error)) => {
                Outcome::Failed { failure, error: error.clone(), partial_result }
            }
            (TaskState::Cancelled, _, _, _) => Outcome::Cancelled { partial_result },
            _ => {
                let sentence = format!("Task {number} has not ended yet; wait for it");
                return Err(Refusal::new(ErrorCode::TaskNotReady, sentence).into());
            }
        };
        Ok((child, outcome))
    }

    /// Hands a child's outcome over, as the result of a call of the last turn: both are stored, or neither.
    pub async fn collect_child(&self, number: TaskNumber, result: &ToolResult) -> Result<()> {
        self.store
            .call(async |connection| {
                sqlx::query!(
                    "select collect_child_1($1, $2, $3, $4, $5, $6, $7)",
                    self.session.0,
                    self.slot,
                    self.task.0,
                    self.id.0,
                    self.answers,
                    number.0,
                    tool_result::row(result)
                )
                .execute(connection)
                .await
            })
            .await?;
        self.store.audience.happened([self.session]);
        Ok(())
    }

    /// Cancels a child and everything below it; one that has ended stays as it is.
    pub async fn cancel_child(&self, number: TaskNumber) -> Result<()> {
        let leases = self
            .store
            .call(async |connection| {
                sqlx::query_scalar!(
                    r#"select cancel_child_1($1, $2, $3, $4, $5) as "leases!""#,
                    self.session.0,
                    self.slot,
                    self.task.0,
                    self.id.0,
                    number.0
                )
                .fetch_one(connection)
                .await
            })
            .await?;
        self.store.notices.lost(leases.into_iter().map(LeaseId).collect());
        self.store.audience.happened([self.session]);
        Ok(())
    }

    /// How long ago the last turn was stored, by the database's clock.
    pub async fn since_last_turn(&self) -> Result<Duration> {
        let seconds = self
            .store
            .call(async |connection| {
                sqlx::query_scalar!(
                    r#"select extract(epoch from clock_timestamp() - u.at)::double precision as "seconds!"
                       from task t
                       join turn u on u.task = t.id and u.at >= t.created_at - interval '1 day'
                       where t.id = $1 and u.number = $2"#,
                    self.task.0,
                    self.answers
                )
                .fetch_optional(connection)
                .await
            })
            .await?;
        // A clock that was set back has not moved on.
        Ok(seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or_default())
    }
}
