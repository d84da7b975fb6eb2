use std::collections::BTreeMap;

use adjutant_agent::{Budget, OverBudget, Spent, TaskId};
use sqlx::types::Json;

use crate::json::to_json;
use crate::text::storable_json;
use crate::{Lease, Result, Store};

/// The budget of a task as it is now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CurrentBudget {
    /// Its own, which may have been raised since its claim.
    pub budget: Budget,
    /// Whether the task waits for more when a budget is used up.
    pub waits: bool,
}

impl Store {
    /// Reads the budget of a task that is about to end over budget.
    pub async fn current_budget(&self, task: TaskId) -> Result<CurrentBudget> {
        let row = self
            .call(async |connection| {
                sqlx::query!(
                    r#"select budget as "budget!: Json<Budget>", waits as "waits!" from over_budget_1($1)"#,
                    task.0
                )
                .fetch_optional(connection)
                .await
            })
            .await?;
        Ok(row
            .map(|row| CurrentBudget { budget: row.budget.0, waits: row.waits })
            .unwrap_or_default())
    }

    /// What calls of a task have used that were broken off.
    pub async fn spent_on_broken_calls(&self, task: TaskId) -> Result<Spent> {
        let row = self
            .call(async |connection| {
                sqlx::query!(
                    r#"select coalesce(sum(input_tokens), 0)::bigint as "input!", coalesce(sum(output_tokens), 0)::bigint as "output!",
                        coalesce(sum(cost_nanousd), 0)::bigint as "cost!"
                       from broken_call
                       where task = $1"#,
                    task.0
                )
                .fetch_one(connection)
                .await
            })
            .await?;
        Ok(Spent { input_tokens: row.input, output_tokens: row.output, cost_nanousd: row.cost })
    }

    /// Publishes the names of a worker's models, and whether each has prices. A limit of the cost
    /// needs them. A model that no worker published for a day is unknown, so workers repeat this
    /// call.
    pub async fn publish_models(&self, models: &BTreeMap<String, bool>) -> Result<()> {
        let models = storable_json(to_json(models)?);
        self.call(async |connection| {
            sqlx::query!("select publish_models_1($1)", models).execute(connection).await
        })
        .await?;
        Ok(())
    }
}

impl Lease {
    /// Writes an event that warns of a limit that is nearly used up, once for each limit.
    pub async fn warn_of_budget(&self, near: &OverBudget) -> Result<()> {
        let near = to_json(near)?;
        self.store
            .call(async |connection| {
                sqlx::query!(
                    "select warn_of_budget_1($1, $2, $3, $4, $5)",
                    self.session.0,
                    self.slot,
                    self.task.0,
                    self.id.0,
                    near
                )
                .execute(connection)
                .await
            })
            .await?;
        self.store.event_notifier.notify([self.session]);
        Ok(())
    }
}
