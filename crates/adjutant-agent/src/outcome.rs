use crate::words::words;

words! {
    /// Where a task is in its life. `Running` is never stored: it is true exactly while a slot holds the task.
    TaskState {
        Queued = "queued",
        Running = "running",
        /// For children or for dependencies; it holds no slot.
        Waiting = "waiting",
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
    }
}

impl TaskState {
    /// A terminal task never changes again.
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Completed | Self::Failed | Self::Cancelled => true,
            Self::Queued | Self::Running | Self::Waiting => false,
        }
    }
}

words! {
    /// Why a task failed.
    FailureKind {
        MaxTurns = "max_turns",
        Timeout = "timeout",
        Budget = "budget",
        Model = "model",
        Tool = "tool",
        EmptyResult = "empty_result",
        /// Its workers died too often without progress, or its agent is not to be resumed.
        Lost = "lost",
        /// A task that it depends on did not complete.
        Dependency = "dependency",
        Internal = "internal",
    }
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Completed { result: String, summary: Option<String> },
    Failed { failure: FailureKind, error: String, partial_result: Option<String> },
    Cancelled { partial_result: Option<String> },
}
