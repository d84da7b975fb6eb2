use adjutant_agent::TaskId;
use serde::Serialize;

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

impl Lease {
    /// Parks the task until these children have ended. Meanwhile it holds no slot and no room in its session's window;
    /// if they have ended already, it goes on at once, on any worker.
    pub fn wait(self, children: Vec<TaskId>, waiting_for: Await) -> Ending {
        self.end(End::Waiting { waiting_for, children })
    }
}
