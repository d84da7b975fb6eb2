//! Whether an agent may delegate to subagents of its own.

use crate::{AgentConfig, Depth, SUBAGENT, prompts};

/// The default of the operator's limit of levels: an orchestrator's tasks have no children.
pub const DEFAULT_MAX_DEPTH: i16 = 1;

/// The default of the operator's limit of the tasks of a tree. `check_spawn_1` has it too, for
/// children that are spawned without an operator's settings.
pub const DEFAULT_MAX_TREE_TASKS: i32 = 200;

/// Whether a task can delegate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delegation {
    /// Its agent has no tool for it.
    Never,
    Allowed,
    /// Its agent would, but the tree is as deep as it may be.
    TooDeep {
        depth: Depth,
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
    /// Whether a task of this depth can delegate. The dialect that spawned it may allow less than
    /// the operator.
    pub fn delegation(&self, depth: Depth, max_depth: i16) -> Delegation {
        let max_depth = self.max_depth.map_or(max_depth, |own| own.min(max_depth));
        match self.may_delegate && self.permits(SUBAGENT) {
            false => Delegation::Never,
            true if depth.0 < max_depth => Delegation::Allowed,
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
        assert_eq!(
            agent.delegation(Depth(1), 1),
            Delegation::TooDeep { depth: Depth(1), max_depth: 1 }
        );
        assert_eq!(agent.delegation(Depth(1), 2), Delegation::Allowed);
        assert_eq!(agent.delegation(Depth(2), 3), Delegation::Allowed);
        assert_eq!(
            agent.delegation(Depth(3), 3).refusal().as_deref(),
            Some(
                "Maximum subagent recursion depth (3) exceeded. Current depth: 3. Cannot spawn nested subagent."
            )
        );
        assert_eq!(
            agent.delegation(Depth(10), 10),
            Delegation::TooDeep { depth: Depth(10), max_depth: 10 }
        );
        let narrower = AgentConfig { max_depth: Some(3), ..agent };
        assert_eq!(
            narrower.delegation(Depth(3), 10),
            Delegation::TooDeep { depth: Depth(3), max_depth: 3 }
        );
        assert_eq!(
            narrower.delegation(Depth(2), 2),
            Delegation::TooDeep { depth: Depth(2), max_depth: 2 }
        );
        assert_eq!(AgentConfig::default().delegation(Depth(1), 10), Delegation::Never);
    }
}
