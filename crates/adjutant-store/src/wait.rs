use std::time::Duration;

use adjutant_agent::{TaskId, WaitMode};
use serde::Serialize;

use crate::batch::MAX_DELAY;
use crate::end::End;
use crate::{Ending, Lease};

/// What wakes a parent that waits.
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
    /// Parks the task until these children have ended. Meanwhile it holds no slot and no room in its session's window;
    /// if they have ended already, it goes on at once, on any worker.
    pub fn wait(self, children: Vec<TaskId>, waiting_for: Await) -> Ending {
        self.end(End::Waiting { waiting_for, children, delay_s: None })
    }

    /// As [`Lease::wait`], but it goes on after so long, whatever they do.
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
