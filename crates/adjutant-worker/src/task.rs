use std::sync::Arc;
use std::time::Instant;

use adjutant_agent::{TaskId, ToolResult, Turn};
use adjutant_store::{Assignment, Error, IdempotencyKey, Lease, NewTask, Spawned};
use tokio_util::sync::CancellationToken;

use crate::claim::Claimed;
use crate::fault;
use crate::handler::Stop;
use crate::held::Hold;
use crate::station::backoff;

/// A task at one attempt, as its handler has it: what is asked, and the right to store progress.
#[derive(Debug)]
pub struct Task {
    assignment: Assignment,
    pub(crate) lease: Lease,
    hold: Arc<Hold>,
    draining: CancellationToken,
}

impl Task {
    pub(crate) fn new(claimed: Claimed, draining: CancellationToken) -> Self {
        let Claimed { claim, hold } = claimed;
        Self { assignment: claim.assignment, lease: claim.lease, hold, draining }
    }

    pub fn assignment(&self) -> &Assignment {
        &self.assignment
    }

    pub fn id(&self) -> TaskId {
        self.lease.task()
    }

    pub fn attempt(&self) -> i32 {
        self.lease.attempt()
    }

    /// Model answers stored so far, by this attempt and those before it.
    pub fn answers(&self) -> i32 {
        self.lease.answers()
    }

    /// To be asked before every step that costs something: whether this worker may still do it.
    pub fn go_on(&self) -> Result<(), Stop> {
        if !self.hold.is_good() {
            return Err(Stop::LeaseLost);
        }
        if self.draining.is_cancelled() {
            return Err(Stop::HandOver);
        }
        Ok(())
    }

    /// Stores the next turn, and renews the lease. After this its model call is never made again.
    pub async fn checkpoint(&mut self, turn: Turn) -> Result<(), Stop> {
        for pause in backoff() {
            let asked_at = Instant::now();
            match self.lease.checkpoint(turn.clone()).await {
                Ok(()) => {
                    self.hold.renewed(asked_at);
                    fault::point("checkpointed");
                    return Ok(());
                }
                Err(error) => self.wait_out(error, pause).await?,
            }
        }
        Err(Stop::LeaseLost)
    }

    /// Stores what a tool call of the last turn gave, and renews the lease.
    pub async fn tool_result(&self, result: ToolResult) -> Result<(), Stop> {
        for pause in backoff() {
            let asked_at = Instant::now();
            match self.lease.tool_result(result.clone()).await {
                Ok(()) => {
                    self.hold.renewed(asked_at);
                    return Ok(());
                }
                Err(error) => self.wait_out(error, pause).await?,
            }
        }
        Err(Stop::LeaseLost)
    }

    /// Makes children, all or none; with a key, once, however often it is asked.
    pub async fn spawn(&self, children: &[NewTask], key: IdempotencyKey<'_>) -> Result<Vec<Spawned>, Stop> {
        for pause in backoff() {
            match self.lease.spawn(children, Some(key)).await {
                Ok(spawned) => return Ok(spawned),
                Err(error) => self.wait_out(error, pause).await?,
            }
        }
        Err(Stop::LeaseLost)
    }

    /// A database that is away is waited for as long as the lease is good.
    async fn wait_out(&self, error: Error, pause: std::time::Duration) -> Result<(), Stop> {
        if let Error::LeaseLost(_) = error {
            return Err(Stop::LeaseLost);
        }
        if !error.is_passing() {
            return Err(Stop::Store(error));
        }
        tracing::warn!(task.id = %self.id(), "cannot store progress, trying again: {error}");
        tokio::time::sleep(pause).await;
        if self.hold.is_good() { Ok(()) } else { Err(Stop::LeaseLost) }
    }
}
