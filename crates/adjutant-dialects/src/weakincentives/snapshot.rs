use std::fmt;

use adjutant_agent::{ContextCall, SessionId};
use serde::Deserialize;

use crate::error::bug;
use crate::{Context, Result};

/// The keys that a summary names; the child can list the others.
const MOST_KEYS: usize = 50;

/// The keys of the snapshot that a child starts with, and their sizes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(super) struct SnapshotSummary {
    pub(super) keys: Vec<SnapshotKey>,
    pub(super) total_size_tokens: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct SnapshotKey {
    pub(super) key: String,
    pub(super) value_size_tokens: i64,
}

impl SnapshotSummary {
    /// Reads the session's shared context as it is now. A key that is written before the task is
    /// stored is in the snapshot and not in this summary.
    /// Empty for a caller that may not use the shared context.
    pub(super) async fn of(context: &Context<'_>, session: SessionId) -> Result<Self> {
        if context.grants().check_shared_context().is_err() {
            return Ok(Self::default());
        }
        let keys = context.store.shared_context(session, &ContextCall::ListKeys).await?;
        Self::deserialize(keys).map_err(|error| bug(&error))
    }
}

impl fmt::Display for SnapshotSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.keys.is_empty() {
            return f.write_str("It has no keys.");
        }
        let (count, size) = (self.keys.len(), self.total_size_tokens);
        write!(f, "Its keys are {count}, with {size} tokens in total:")?;
        for SnapshotKey { key, value_size_tokens } in self.keys.iter().take(MOST_KEYS) {
            write!(f, "\n- {key} ({value_size_tokens} tokens)")?;
        }
        match count.saturating_sub(MOST_KEYS) {
            0 => Ok(()),
            more => write!(f, "\n({more} more)"),
        }
    }
}
