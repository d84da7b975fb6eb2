use std::time::Duration;

use adjutant_agent::{TaskId, WaitMode};

use crate::batch::MAX_DELAY;
use crate::end::End;
use crate::{Ending, Lease};

/// The condition that wakes a waiting parent, as `task.waiting_for` names it.
pub(crate) fn condition(mode: WaitMode) -> &'static str {
    match mode {
        WaitMode::All => "all_children",
        WaitMode::Any => "any_child",
    }
}

impl Lease {
    /// Ends the attempt and makes the task wait for these children. While it waits it holds no slot
    /// and no place in its session's window. If they have already ended, it is queued at once.
    pub fn wait(self, children: Vec<TaskId>, waiting_for: WaitMode) -> Ending {
        self.end(End::Waiting { waiting_for, children, delay_s: None })
    }

    /// Like [`Lease::wait`], but the task is queued after `at_most` in any case.
    pub fn wait_at_most(
        self,
        children: Vec<TaskId>,
        waiting_for: WaitMode,
        at_most: Duration,
    ) -> Ending {
        let delay_s = Some(at_most.min(MAX_DELAY).as_secs_f64());
        self.end(End::Waiting { waiting_for, children, delay_s })
    }
}
