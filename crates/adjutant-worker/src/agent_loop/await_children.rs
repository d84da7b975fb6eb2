//! Calls that wait for children. A task that has to wait ends its attempt and holds neither a slot
//! nor memory. The worker that continues it finds the same call, reads the same rows and answers
//! it.

use std::time::{Duration, Instant};

use adjutant_agent::{Arguments, PendingCall, TaskId, ToolResult, ToolUse, WaitMode};
use adjutant_dialects::nested::NestedCalls;
use adjutant_dialects::spec::nested::{ChildCall, Waited};
use serde_json::Value;

use super::run_tools::{ToolRunner, error, refused};
use crate::tools::FailureKindCell;
use crate::{End, Stop, fault};

pub(super) enum Awaited {
    /// At least one of the calls is answered; the others are checked again.
    Answered(Vec<ToolResult>),
    Parked(End),
}

/// The state of one call.
pub(super) enum Wait {
    Over(ToolResult),
    /// It continues: for these children, and for this time.
    Until {
        children: Vec<TaskId>,
        mode: WaitMode,
        at_most: Option<Duration>,
    },
}

impl ToolRunner<'_> {
    /// Answers the calls whose waits are over. If there is none, the task waits for the children of
    /// the first call.
    pub(super) async fn await_children(&self, calls: &[PendingCall<'_>]) -> Result<Awaited, Stop> {
        self.task.check_lease()?;
        let (mut answered, mut parked) = (Vec::new(), None);
        for PendingCall { call, .. } in calls {
            match self.wait(call).await? {
                Wait::Over(result) => {
                    answered.push(
                        self.traced(call, &FailureKindCell::default(), self.store(call, result))
                            .await?,
                    );
                }
                Wait::Until { children, mode, at_most } => {
                    parked.get_or_insert(End::Waiting { children, until: mode, at_most });
                }
            }
        }
        match parked {
            Some(end) if answered.is_empty() => {
                fault::point("parking");
                Ok(Awaited::Parked(end))
            }
            Some(_) | None => Ok(Awaited::Answered(answered)),
        }
    }

    async fn wait(&self, call: &ToolUse) -> Result<Wait, Stop> {
        let arguments = match &call.arguments {
            Arguments::Json(arguments) => arguments,
            Arguments::Malformed(_) | Arguments::CutOff(_) => &Value::Null,
        };
        match NestedCalls::of(self.agent) {
            NestedCalls::Actions => self.wait_for_some(call, arguments).await,
            NestedCalls::Blocking(tool) => self.wait_for_one(tool, call, arguments).await,
        }
    }

    /// Waits for children that were spawned before.
    async fn wait_for_some(&self, call: &ToolUse, arguments: &Value) -> Result<Wait, Stop> {
        let refuse = |why| Wait::Over(error(call, why, Instant::now()));
        if let Some(why) = self.delegation.refusal() {
            return Ok(refuse(why));
        }
        let wait = match ChildCall::parse(arguments, &self.delegating.operator.texts) {
            Ok(ChildCall::Wait(wait)) => wait,
            Ok(_) => {
                return Ok(refuse("The call was not made: it is not one that waits.".to_owned()));
            }
            Err(refusal) => return Ok(refuse(refused(&refusal))),
        };
        let children = self.task.children().await?;
        let since = match wait.timeout {
            Some(_) => self.task.since_last_turn().await?,
            None => Duration::ZERO,
        };
        Ok(match wait.decide(&children, since) {
            Ok(Waited::Over(answer)) => Wait::Over(ToolResult {
                is_error: false,
                ..error(call, answer.to_string(), Instant::now())
            }),
            Ok(Waited::Until { children, mode, at_most }) => {
                Wait::Until { children, mode, at_most }
            }
            Err(refusal) => refuse(refused(&refusal)),
        })
    }
}
