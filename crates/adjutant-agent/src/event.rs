use crate::words::words;

words! {
    /// What happened to a task, in the words of its history.
    EventKind {
        Spawned = "spawned",
        /// A worker has begun it, or goes on with it.
        Started = "started",
        /// A model answer was stored.
        Turn = "turn",
        /// The result of a tool call was stored.
        Tool = "tool",
        Waiting = "waiting",
        Resumed = "resumed",
        Released = "released",
        /// Its worker was lost.
        Lost = "lost",
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
    }
}

impl EventKind {
    /// Whether it is the last of its task.
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Completed | Self::Failed | Self::Cancelled => true,
            Self::Spawned
            | Self::Started
            | Self::Turn
            | Self::Tool
            | Self::Waiting
            | Self::Resumed
            | Self::Released
            | Self::Lost => false,
        }
    }
}
