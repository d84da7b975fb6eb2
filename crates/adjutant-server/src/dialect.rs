use std::str::FromStr;

use adjutant_agent::Refusal;

/// In whose words a call is written and answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Dialect {
    /// Our own: the tools `subagent` and `shared_context`.
    #[default]
    Spec,
}

impl FromStr for Dialect {
    type Err = Refusal;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "spec" => Ok(Self::Spec),
            _ => Err(Refusal::invalid("dialect", "must be spec")),
        }
    }
}
