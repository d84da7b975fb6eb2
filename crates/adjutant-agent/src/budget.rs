use std::fmt;
use std::iter::Sum;

use serde::{Deserialize, Serialize};

use crate::word_enum::word_enum;
use crate::{Fields, Refusal, Spent, StoredTurn, Usage, nanousd, not_negative};

/// The most that may be used; checked before each model call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Budget {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_input_tokens: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost_nanousd: Option<i64>,
}

word_enum! {
    /// What a task does that has reached a budget.
    OnBudget {
        Fail = "fail",
        /// Waits until the budget is raised.
        Pause = "pause",
    }
}

impl Budget {
    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }

    /// Takes the limits from the fields of a call.
    pub fn take_from(fields: &mut Fields<'_>) -> Result<Self, Refusal> {
        let mut tokens = |name| not_negative(name, fields.integer(name)?);
        let (max_input_tokens, max_output_tokens) =
            (tokens("max_input_tokens")?, tokens("max_output_tokens")?);
        let cost = fields.number("max_cost_usd")?;
        let max_cost_nanousd = cost.map(|cost| nanousd("max_cost_usd", cost)).transpose()?;
        Ok(Self { max_input_tokens, max_output_tokens, max_cost_nanousd })
    }

    /// Takes the limits of a raise, of which there is at least one.
    pub fn take_raise_from(fields: &mut Fields<'_>) -> Result<Self, Refusal> {
        let budget = Self::take_from(fields)?;
        if budget.is_unlimited() {
            let problem = "is required, or max_input_tokens, or max_output_tokens";
            return Err(Refusal::invalid("max_cost_usd", problem));
        }
        Ok(budget)
    }
}

impl OnBudget {
    /// Takes `on_budget` from the fields of a call.
    pub fn take_from(fields: &mut Fields<'_>) -> Result<Option<Self>, Refusal> {
        let Some(word) = fields.optional_text("on_budget")? else { return Ok(None) };
        word.parse().map(Some).map_err(|_| Refusal::invalid("on_budget", "must be fail or pause"))
    }
}

word_enum! {
    /// What a budget applies to.
    BudgetScope {
        Task = "task",
        /// A task and all of its descendants.
        Tree = "tree",
        Session = "session",
    }
}

word_enum! {
    /// One of a budget's limits, by its public name.
    BudgetLimit {
        InputTokens = "max_input_tokens",
        OutputTokens = "max_output_tokens",
        Cost = "max_cost_usd",
    }
}

/// A limit that is used up: no further model call may start. Its text is the error of the task.
/// Also a limit that is nearly used up, of which an event warns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverBudget {
    pub scope: BudgetScope,
    pub limit: BudgetLimit,
    pub allowed: i64,
    pub spent: i64,
}

impl std::error::Error for OverBudget {}

impl fmt::Display for OverBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scope, limit, allowed, spent } = self;
        match limit {
            BudgetLimit::InputTokens | BudgetLimit::OutputTokens => {
                write!(
                    f,
                    "Budget exceeded: {limit} of the {scope} is {allowed}, and {spent} are used"
                )
            }
            BudgetLimit::Cost => {
                let (allowed, spent) = (Usd(*allowed), Usd(*spent));
                write!(
                    f,
                    "Budget exceeded: {limit} of the {scope} is {allowed}, and {spent} are used"
                )
            }
        }
    }
}

/// Nanodollars, displayed in dollars with all significant decimals and at least two.
struct Usd(i64);

impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let nanos = self.0.unsigned_abs();
        let digits = format!("{:09}", nanos % 1_000_000_000);
        let kept = digits.trim_end_matches('0').len().max(2);
        write!(f, "{sign}{}.{}", nanos / 1_000_000_000, &digits[..kept])
    }
}

impl Budget {
    /// Whether another model call may start after `spent` was used. The use of a call is not known
    /// in advance, so the last call of each running task may exceed the limit.
    pub fn check(&self, scope: BudgetScope, spent: Spent) -> Result<(), OverBudget> {
        let over = self.limits(scope, spent).find(|limit| limit.spent >= limit.allowed);
        over.map_or(Ok(()), Err)
    }

    /// The limits of which four fifths are used.
    pub fn nearly_used_up(
        &self,
        scope: BudgetScope,
        spent: Spent,
    ) -> impl Iterator<Item = OverBudget> + use<> {
        let is_near =
            |limit: &OverBudget| i128::from(limit.spent) * 5 >= i128::from(limit.allowed) * 4;
        self.limits(scope, spent).filter(is_near)
    }

    fn limits(&self, scope: BudgetScope, spent: Spent) -> impl Iterator<Item = OverBudget> + use<> {
        let limits = [
            (BudgetLimit::InputTokens, self.max_input_tokens, spent.input_tokens),
            (BudgetLimit::OutputTokens, self.max_output_tokens, spent.output_tokens),
            (BudgetLimit::Cost, self.max_cost_nanousd, spent.cost_nanousd),
        ];
        limits.into_iter().filter_map(move |(limit, allowed, spent)| {
            allowed.map(|allowed| OverBudget { scope, limit, allowed, spent })
        })
    }
}

impl Spent {
    /// The use of all these turns, of every kind.
    pub fn on(turns: &[StoredTurn]) -> Self {
        turns.iter().map(|stored| stored.turn.usage.into()).sum()
    }
}

impl From<Usage> for Spent {
    fn from(usage: Usage) -> Self {
        Self {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cost_nanousd: usage.cost_nanousd,
        }
    }
}

impl std::ops::Add for Spent {
    type Output = Self;

    /// Saturates: a sum that wraps around would reopen a budget.
    fn add(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cost_nanousd: self.cost_nanousd.saturating_add(other.cost_nanousd),
        }
    }
}

impl Sum for Spent {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::default(), |sum, part| sum + part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Turn, TurnKind};

    const BUDGET: Budget = Budget {
        max_input_tokens: Some(50_000),
        max_output_tokens: Some(5_000),
        max_cost_nanousd: Some(250_000_000),
    };

    fn spent(input_tokens: i64, output_tokens: i64, cost_nanousd: i64) -> Spent {
        Spent { input_tokens, output_tokens, cost_nanousd }
    }

    #[test]
    fn a_limit_holds_once_it_is_reached_and_not_before() {
        for (spent, over) in [
            (spent(0, 0, 0), None),
            (spent(49_999, 4_999, 249_999_999), None),
            (spent(50_000, 0, 0), Some(BudgetLimit::InputTokens)),
            (spent(0, 5_001, 0), Some(BudgetLimit::OutputTokens)),
            (spent(0, 0, 250_000_000), Some(BudgetLimit::Cost)),
        ] {
            let found = BUDGET.check(BudgetScope::Task, spent).err().map(|over| over.limit);
            assert_eq!(found, over, "{spent:?}");
        }
        assert_eq!(
            Budget::default().check(BudgetScope::Task, spent(i64::MAX, i64::MAX, i64::MAX)),
            Ok(())
        );
    }

    #[test]
    fn a_limit_is_nearly_used_up_from_four_fifths_on() {
        let near = |spent| {
            let near = BUDGET.nearly_used_up(BudgetScope::Task, spent);
            near.map(|near| near.limit).collect::<Vec<_>>()
        };
        assert_eq!(near(spent(39_999, 3_999, 199_999_999)), []);
        assert_eq!(
            near(spent(40_000, 0, 200_000_000)),
            [BudgetLimit::InputTokens, BudgetLimit::Cost]
        );
        let most = Budget { max_input_tokens: Some(i64::MAX), ..Budget::default() };
        assert_eq!(most.nearly_used_up(BudgetScope::Task, spent(i64::MAX, 0, 0)).count(), 1);
    }

    #[test]
    fn the_error_says_which_limit_and_the_figures() {
        for (scope, spent, text) in [
            (
                BudgetScope::Task,
                spent(51_234, 0, 0),
                "Budget exceeded: max_input_tokens of the task is 50000, and 51234 are used",
            ),
            (
                BudgetScope::Session,
                spent(0, 5_000, 0),
                "Budget exceeded: max_output_tokens of the session is 5000, and 5000 are used",
            ),
            (
                BudgetScope::Tree,
                spent(0, 0, 1_250_000_001),
                "Budget exceeded: max_cost_usd of the tree is 0.25, and 1.250000001 are used",
            ),
        ] {
            assert_eq!(BUDGET.check(scope, spent).unwrap_err().to_string(), text);
        }
    }

    #[test]
    fn what_turns_used_is_summed_over_all_kinds_and_never_wraps() {
        let turn = |kind, input_tokens| StoredTurn {
            turn: Turn {
                kind,
                usage: Usage {
                    input_tokens,
                    output_tokens: 2,
                    cost_nanousd: 3,
                    ..Usage::default()
                },
                ..Turn::default()
            },
            ..StoredTurn::default()
        };
        let turns =
            [turn(TurnKind::Turn, 10), turn(TurnKind::AskAgain, 20), turn(TurnKind::Summary, 30)];
        assert_eq!(Spent::on(&turns), spent(60, 6, 9));
        assert_eq!(
            Spent::on(&[turn(TurnKind::Turn, i64::MAX), turn(TurnKind::Turn, 1)]).input_tokens,
            i64::MAX
        );
        assert_eq!(Spent::on(&[]), Spent::default());
    }
}
