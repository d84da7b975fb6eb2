//! What a model call may cost: budgets, and the prices that a limit of the cost needs.

use adjutant_agent::{Budget, BudgetScope, FailureKind, OverBudget, Spent};
use adjutant_store::{Account, Preflight};

use super::call_model::{CallResult, ModelCall};
use super::models::ModelChain;
use crate::{End, Stop, Task};

/// The budgets that hold for a call, and what is spent of them.
struct Budgets([(BudgetScope, Option<Account>); 3]);

impl Budgets {
    fn of(own: Budget, spent: Spent, preflight: &Preflight) -> Self {
        let own = Account { budget: own, spent };
        Self([
            (BudgetScope::Task, Some(own)),
            (BudgetScope::Tree, preflight.tree),
            (BudgetScope::Session, preflight.session),
        ])
    }

    fn accounts(&self) -> impl Iterator<Item = (BudgetScope, Account)> {
        self.0.iter().filter_map(|(scope, account)| account.map(|account| (*scope, account)))
    }

    /// Whether another call may start, whatever it will cost.
    fn check(&self) -> Result<(), OverBudget> {
        self.accounts().try_for_each(|(scope, account)| account.budget.check(scope, account.spent))
    }

    /// The limits to warn of. The budget of a root is its tree's, so it is told once.
    fn nearly_used_up(&self) -> Vec<OverBudget> {
        let near = self
            .accounts()
            .flat_map(|(scope, account)| account.budget.nearly_used_up(scope, account.spent));
        near.collect()
    }

    /// The first budget that limits the cost.
    fn limit_of_cost(&self) -> Option<BudgetScope> {
        self.accounts()
            .find(|(_, account)| account.budget.max_cost_nanousd.is_some())
            .map(|(scope, _)| scope)
    }
}

/// Whether the call may be made; else how the attempt ends, or that the model is not to be called.
pub(super) async fn check_money(
    task: &Task,
    chain: &ModelChain,
    call: &ModelCall<'_>,
    preflight: &Preflight,
) -> Result<Result<(), CallResult>, Stop> {
    let spent = Spent::on(call.turns) + task.spent_on_broken_calls();
    let mut budgets = Budgets::of(call.agent.budget, spent, preflight);
    if let Some(scope) = budgets.limit_of_cost()
        && !chain.current().model.has_prices()
    {
        return Ok(Err(without_prices(chain, call, scope)));
    }
    if budgets.check().is_err() {
        // Rare, and the only time that a raise of the running task matters.
        let current = task.current_budget().await?;
        budgets = Budgets::of(current.budget, spent, preflight);
        if let Err(over) = budgets.check() {
            return Ok(Err(CallResult::Ended(over_budget(call, over, current.waits))));
        }
    }
    for near in budgets.nearly_used_up() {
        task.warn_of_budget(near).await?;
    }
    Ok(Ok(()))
}

/// A task that has its result and lacks only a summary ends instead of waiting.
fn over_budget(call: &ModelCall<'_>, over: OverBudget, waits: bool) -> End {
    let end = call.give_up(FailureKind::Budget, over.to_string());
    if waits && matches!(end, End::Failed { .. }) { End::Paused { over } } else { end }
}

/// A fallback without prices is passed over.
fn without_prices(chain: &ModelChain, call: &ModelCall<'_>, scope: BudgetScope) -> CallResult {
    let name = chain.current().model.name();
    let error = format!(
        "max_cost_usd of the {scope} needs the prices of the model {name:?}; set models.{name}.prices"
    );
    if chain.is_at_start() {
        return CallResult::Ended(call.give_up(FailureKind::Budget, error));
    }
    CallResult::Unavailable { closed_for: None, error }
}
