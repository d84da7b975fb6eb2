use crate::words::{word_schema, words};

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

word_schema!(TaskState);

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

word_schema!(FailureKind);

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Completed { result: String, summary: Option<String> },
    Failed { failure: FailureKind, error: String, partial_result: Option<String> },
    Cancelled { partial_result: Option<String> },
}

/// What is stored of a task's end, each part by itself.
#[derive(Debug, Clone, Default)]
pub struct OutcomeParts {
    pub result: Option<String>,
    pub summary: Option<String>,
    pub failure: Option<FailureKind>,
    pub error: Option<String>,
    pub partial_result: Option<String>,
}

impl Outcome {
    /// What they say together; none of a task that has not ended.
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
