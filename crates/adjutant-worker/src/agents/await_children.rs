//! Calls that wait for children. Who has to wait is let go of: it holds no slot and no memory, and whoever goes on with it finds the
//! same call, looks at the same rows, and answers it.

use std::time::{Duration, Instant};

use adjutant_agent::{Arguments, ChildCall, ChildWait, PendingCall, ToolResult, Waited};

use super::use_tools::{Bench, error, refused};
use crate::{End, Stop, fault};

pub(super) enum Awaited {
    /// At least one of the calls; the others are looked at again.
    Answered(Vec<ToolResult>),
    Parked(End),
}

impl Bench<'_> {
    /// Answers the calls that have nothing left to wait for. If there is none, the first of them says what the task waits for.
    pub(super) async fn await_children(&self, calls: &[PendingCall<'_>]) -> Result<Awaited, Stop> {
        self.task.check_lease()?;
        let (mut answered, mut parked) = (Vec::new(), None);
        for pending in calls {
            let result = match self.wait(pending).await? {
                Ok(Waited::Over(answer)) => {
                    ToolResult { is_error: false, ..error(pending.call, answer.to_string(), Instant::now()) }
                }
                Ok(Waited::Until { children, mode, at_most }) => {
                    parked.get_or_insert(End::Waiting { children, until: mode.into(), at_most });
                    continue;
                }
                Err(why) => error(pending.call, why, Instant::now()),
            };
            answered.push(self.traced(pending.call, self.store(pending.call, result)).await?);
        }
        match parked {
            Some(end) if answered.is_empty() => {
                fault::point("parking");
                Ok(Awaited::Parked(end))
            }
            Some(_) | None => Ok(Awaited::Answered(answered)),
        }
    }

    /// How one of them stands, or what its agent is told instead.
    async fn wait(&self, pending: &PendingCall<'_>) -> Result<Result<Waited, String>, Stop> {
        if let Some(why) = self.delegation.refusal() {
            return Ok(Err(why));
        }
        let Some(wait) = wait_in(&pending.call.arguments) else {
            return Ok(Err("The call was not made: it is not one that waits.".to_owned()));
        };
        let children = self.task.children().await?;
        let since = match wait.timeout {
            Some(_) => self.task.since_last_turn().await?,
            None => Duration::ZERO,
        };
        Ok(wait.decide(&children, since).map_err(|refusal| refused(&refusal)))
    }
}

fn wait_in(arguments: &Arguments) -> Option<ChildWait> {
    let Arguments::Json(arguments) = arguments else { return None };
    match ChildCall::parse(arguments) {
        Ok(ChildCall::Wait(wait)) => Some(wait),
        Ok(_) | Err(_) => None,
    }
}
