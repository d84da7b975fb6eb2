use std::time::Duration;

use crate::batch::MAX_DELAY;
use crate::end::End;
use crate::{Ending, Lease};

impl Lease {
    /// Gives the task back unfinished, to be continued by any worker, in front of the queue. Costs
    /// no failure.
    pub fn release(self) -> Ending {
        self.end(End::Released { delay_s: None })
    }

    /// Gives the task back, not to be continued before `delay` has passed (a year at most: it may
    /// be a provider's word).
    pub fn release_for(self, delay: Duration) -> Ending {
        self.end(End::Released { delay_s: Some(delay.min(MAX_DELAY).as_secs_f64()) })
    }
}
