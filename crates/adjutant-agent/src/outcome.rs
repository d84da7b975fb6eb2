use crate::word_enum::{word_enum, word_schema};

word_enum! {
    /// The state of a task. `Running` is not stored: a task is running exactly while a slot holds
    /// it.
    TaskState {
        Queued = "queued",
        Running = "running",
        /// Waits for children or dependencies; holds no slot.
        Waiting = "waiting",
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
    }
}

word_schema!(TaskState);

impl TaskState {
    /// Whether the task has ended; then it never changes state again.
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Completed | Self::Failed | Self::Cancelled => true,
            Self::Queued | Self::Running | Self::Waiting => false,
        }
    }
}

word_enum! {
    /// Why a task failed.
    FailureKind {
        MaxTurns = "max_turns",
        Timeout = "timeout",
        Budget = "budget",
        Model = "model",
        Tool = "tool",
        EmptyResult = "empty_result",
        /// Its workers died too often without progress, or its agent must not be resumed.
        Lost = "lost",
        /// A task that it depends on did not complete.
        Dependency = "dependency",
        Internal = "internal",
    }
}

word_schema!(FailureKind);

/// The outcome of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Completed { result: String, summary: Option<String> },
    Failed { failure: FailureKind, error: String, partial_result: Option<String> },
    Cancelled { partial_result: Option<String> },
}

/// The columns that make up an outcome.
#[derive(Debug, Clone, Default)]
pub struct OutcomeParts {
    pub result: Option<String>,
    pub summary: Option<String>,
    pub failure: Option<FailureKind>,
    pub error: Option<String>,
    pub partial_result: Option<String>,
}

impl Outcome {
    /// Makes an outcome of its columns; none if the state is not terminal or a column is missing.
    pub fn of(state: TaskState, parts: OutcomeParts) -> Option<Self> {
        let OutcomeParts { result, summary, failure, error, partial_result } = parts;
        match state {
            TaskState::Completed => Some(Self::Completed { result: result?, summary }),
            TaskState::Failed => {
                Some(Self::Failed { failure: failure?, error: error?, partial_result })
            }
            TaskState::Cancelled => Some(Self::Cancelled { partial_result }),
            TaskState::Queued | TaskState::Running | TaskState::Waiting => None,
        }
    }
}
