//! Whether an agent may delegate to subagents of its own.

use crate::{AgentConfig, SUBAGENT, prompts};

/// The default of the operator's limit of levels: an orchestrator's tasks have no children.
pub const DEFAULT_MAX_DEPTH: i16 = 1;

/// Whether a task can delegate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delegation {
    /// Its agent has no tool for it.
    Never,
    Allowed,
    /// Its agent may delegate, but the task is at the deepest level. An orchestrator's task has
    /// depth 1, its children 2.
    TooDeep {
        depth: i16,
        max_depth: i16,
    },
}

impl Delegation {
    /// The error for a call to delegate that is not allowed.
    pub fn refusal(self) -> Option<String> {
        match self {
            Self::Never | Self::Allowed => None,
            Self::TooDeep { depth, max_depth } => Some(prompts::too_deep(max_depth, depth)),
        }
    }
}

impl AgentConfig {
    /// Whether a task with so many ancestors can delegate. The dialect that it was spawned in may
    /// allow less depth than the operator.
    pub fn delegation(&self, ancestors: i16, max_depth: i16) -> Delegation {
        let max_depth = self.max_depth.map_or(max_depth, |own| own.min(max_depth));
        let depth = ancestors.saturating_add(1);
        match self.may_delegate && self.permits(SUBAGENT) {
            false => Delegation::Never,
            true if depth < max_depth => Delegation::Allowed,
            true => Delegation::TooDeep { depth, max_depth },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_allowed_level_does_not_delegate() {
        let agent = AgentConfig { may_delegate: true, ..AgentConfig::default() };
        assert_eq!(agent.delegation(0, 1), Delegation::TooDeep { depth: 1, max_depth: 1 });
        assert_eq!(agent.delegation(0, 2), Delegation::Allowed);
        assert_eq!(agent.delegation(1, 3), Delegation::Allowed);
        assert_eq!(
            agent.delegation(2, 3).refusal().as_deref(),
            Some(
                "Maximum subagent recursion depth (3) exceeded. Current depth: 3. Cannot spawn nested subagent."
            )
        );
        assert_eq!(agent.delegation(9, 10), Delegation::TooDeep { depth: 10, max_depth: 10 });
        let narrower = AgentConfig { max_depth: Some(3), ..agent };
        assert_eq!(narrower.delegation(2, 10), Delegation::TooDeep { depth: 3, max_depth: 3 });
        assert_eq!(narrower.delegation(1, 2), Delegation::TooDeep { depth: 2, max_depth: 2 });
        assert_eq!(AgentConfig::default().delegation(0, 10), Delegation::Never);
    }
}
