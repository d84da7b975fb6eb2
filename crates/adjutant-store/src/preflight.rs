use std::time::Duration;

use adjutant_agent::{Budget, SessionId, Spent, TaskId};
use sqlx::types::Json;

use crate::{Result, Store};

/// The limits to check before a model call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Preflight {
    /// How long the model's gate is still closed, by the database's clock.
    pub closed_for: Duration,
    /// It is a circuit: no call may be made before one has succeeded, except by the task that asks
    /// for it ([`Store::take_probe`]) when the time has come.
    pub is_circuit: bool,
    /// None without a budget.
    pub session: Option<Account>,
    /// Of the whole tree; none without a budget.
    pub tree: Option<Account>,
}

/// A budget and its use, by ended and by running attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Account {
    pub budget: Budget,
    pub spent: Spent,
}

impl Store {
    /// Reads whether a running task may call the model now. Writes nothing.
    pub async fn preflight(
        &self,
        task: TaskId,
        session: SessionId,
        model: &str,
    ) -> Result<Preflight> {
        let row = self
            .call(async |connection| {
                sqlx::query_as!(
                    Row,
                    r#"select closed_ms, is_circuit, session_budget as "session_budget: Json<Budget>", session_input_tokens,
                        session_output_tokens, session_cost_nanousd, tree_budget as "tree_budget: Json<Budget>",
                        tree_input_tokens, tree_output_tokens, tree_cost_nanousd
                       from preflight_1($1, $2, $3)"#,
                    task.0,
                    session.0,
                    model
                )
                .fetch_one(connection)
                .await
            })
            .await?;
        Ok(row.into())
    }
}

/// The row that `preflight_1` returns.
pub(crate) struct Row {
    pub(crate) closed_ms: Option<i64>,
    pub(crate) is_circuit: Option<bool>,
    pub(crate) session_budget: Option<Json<Budget>>,
    pub(crate) session_input_tokens: Option<i64>,
    pub(crate) session_output_tokens: Option<i64>,
    pub(crate) session_cost_nanousd: Option<i64>,
    pub(crate) tree_budget: Option<Json<Budget>>,
    pub(crate) tree_input_tokens: Option<i64>,
    pub(crate) tree_output_tokens: Option<i64>,
    pub(crate) tree_cost_nanousd: Option<i64>,
}

impl From<Row> for Preflight {
    fn from(row: Row) -> Self {
        let closed_ms = row.closed_ms.map_or(0, |ms| u64::try_from(ms).unwrap_or_default());
        let session =
            [row.session_input_tokens, row.session_output_tokens, row.session_cost_nanousd];
        let tree = [row.tree_input_tokens, row.tree_output_tokens, row.tree_cost_nanousd];
        Self {
            closed_for: Duration::from_millis(closed_ms),
            is_circuit: row.is_circuit.unwrap_or_default(),
            session: account(row.session_budget, session),
            tree: account(row.tree_budget, tree),
        }
    }
}

/// The sums are null exactly if there is no budget.
fn account(budget: Option<Json<Budget>>, spent: [Option<i64>; 3]) -> Option<Account> {
    let [Some(input_tokens), Some(output_tokens), Some(cost_nanousd)] = spent else { return None };
    Some(Account { budget: budget?.0, spent: Spent { input_tokens, output_tokens, cost_nanousd } })
}
