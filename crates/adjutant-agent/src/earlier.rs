use crate::next::{max_turns, turns_used};
use crate::{AgentSpec, StoredTurn};

/// A task that has ended, and whose conversation another one goes on with.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EarlierTask {
    /// As it was then: what it was asked besides its assignment depends on it.
    pub agent: AgentSpec,
    pub assignment: String,
    pub turns: Vec<StoredTurn>,
}

impl EarlierTask {
    /// Then the tools of its last turn were never called; otherwise those without a result may have been.
    pub(crate) fn ran_out_of_turns(&self) -> bool {
        turns_used(&self.turns) >= max_turns(&self.agent)
    }
}
