use std::time::Duration;

use adjutant_agent::{TaskId, WaitMode};
use serde::Serialize;

use crate::batch::MAX_DELAY;
use crate::end::End;
use crate::{Ending, Lease};

/// The condition that wakes a waiting parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Await {
    #[serde(rename = "all_children")]
    All,
    #[serde(rename = "any_child")]
    Any,
}

impl From<WaitMode> for Await {
    fn from(mode: WaitMode) -> Self {
        match mode {
            WaitMode::All => Self::All,
            WaitMode::Any => Self::Any,
        }
    }
}

impl Lease {
    /// Ends the attempt and makes the task wait for these children. While it waits it holds no slot
    /// and no place in its session's window. If they have already ended, it is queued at once.
    pub fn wait(self, children: Vec<TaskId>, waiting_for: Await) -> Ending {
        self.end(End::Waiting { waiting_for, children, delay_s: None })
    }

    /// Like [`Lease::wait`], but the task is queued after `at_most` in any case.
    pub fn wait_at_most(
        self,
        children: Vec<TaskId>,
        waiting_for: Await,
        at_most: Duration,
    ) -> Ending {
        let delay_s = Some(at_most.min(MAX_DELAY).as_secs_f64());
        self.end(End::Waiting { waiting_for, children, delay_s })
    }
}
