use crate::word_enum::word_enum;

word_enum! {
    /// The kind of an event of a task.
    EventKind {
        Spawned = "spawned",
        /// A worker started an attempt.
        Started = "started",
        /// A model answer was stored.
        Turn = "turn",
        /// The result of a tool call was stored.
        Tool = "tool",
        /// A model call failed and is tried again, or waits until the model accepts calls.
        Retrying = "retrying",
        Waiting = "waiting",
        Resumed = "resumed",
        Released = "released",
        /// Its lease expired: its worker was lost.
        Lost = "lost",
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
    }
}

impl EventKind {
    /// Whether it is the last event of its task.
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Completed | Self::Failed | Self::Cancelled => true,
            Self::Spawned
            | Self::Started
            | Self::Turn
            | Self::Tool
            | Self::Retrying
            | Self::Waiting
            | Self::Resumed
            | Self::Released
            | Self::Lost => false,
        }
    }
}
