use serde::Serialize;

/// The level of a task in its tree: 1 for a task of an orchestrator, 2 for its children.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct Depth(pub i16);

impl Depth {
    /// A task without a parent.
    pub const TOP: Self = Self(1);

    /// The depth of the children.
    pub fn of_children(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl std::fmt::Display for Depth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
