use clap::Args;
use serde_json::{Map, Value};

/// Limits of a budget.
#[derive(Debug, Args)]
pub struct BudgetArgs {
    /// The most input tokens
    #[arg(long, value_name = "N")]
    max_input_tokens: Option<u64>,

    /// The most output tokens
    #[arg(long, value_name = "N")]
    max_output_tokens: Option<u64>,

    /// The highest cost
    #[arg(long, value_name = "USD")]
    max_cost_usd: Option<f64>,
}

impl BudgetArgs {
    /// The limits that were given, as fields of a request.
    pub fn fields(&self) -> Map<String, Value> {
        let limits = [
            ("max_input_tokens", self.max_input_tokens.map(Value::from)),
            ("max_output_tokens", self.max_output_tokens.map(Value::from)),
            ("max_cost_usd", self.max_cost_usd.map(Value::from)),
        ];
        let given = limits.into_iter().filter_map(|(name, limit)| Some((name.to_owned(), limit?)));
        given.collect()
    }
}
