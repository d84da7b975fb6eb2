//! Writes the ends of attempts and claims the next tasks, in one call to the database.
//!
//! While one call is under way the next batch of ends accumulates; the loop never waits for a batch
//! to fill. A second concurrent call would make both batches smaller and cost more than it gains.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use adjutant_store::{Ending, Error, Store, Unwritten, warn_unless_outage};
use tokio::sync::mpsc;

use crate::claim::{Claimed, hand_over};
use crate::end;
use crate::fault;
use crate::worker_state::{Ended, WorkerState, Written, backoff};

/// A larger batch would lock many sessions for long.
const BATCH: usize = 50;

/// The most endings of busy sessions in a batch, so that there is room for others.
const MAX_BUSY: usize = BATCH / 2;

/// The longest pause between two tries to write the ends of sessions that others hold.
const MAX_PAUSE: Duration = Duration::from_millis(250);

/// The loop.
pub(crate) struct EndAndClaim {
    pub(crate) calls: Calls,
    /// `None` while the worker drains: it claims no more tasks.
    pub(crate) claims: Option<mpsc::UnboundedSender<Claimed>>,
    pub(crate) endings: mpsc::UnboundedReceiver<Ended>,
}

/// The database calls of the loop, on a connection of their own.
pub(crate) struct Calls {
    pub(crate) state: Arc<WorkerState>,
    pub(crate) connection: Store,
}

impl EndAndClaim {
    pub(crate) async fn run(mut self) {
        let (mut endings, mut claims) = (self.endings, self.claims.take());
        let calls = &self.calls;
        // Endings of sessions that other transactions held, and the pause before they are written
        // again. New endings do not wait for it.
        let mut busy = VecDeque::new();
        let mut pause = Duration::ZERO;
        let mut pauses = backoff();
        loop {
            let mut batch = Vec::new();
            tokio::select! {
                biased;
                () = calls.state.draining.cancelled(), if claims.is_some() => {
                    claims = None;
                    continue;
                }
                _ = endings.recv_many(&mut batch, BATCH - MAX_BUSY) => {}
                () = calls.state.wake.notified() => {}
                () = sleep(pause), if !busy.is_empty() => {}
            }
            if calls.state.draining.is_cancelled() {
                claims = None;
            }
            batch.extend(busy.drain(..busy.len().min(MAX_BUSY)));
            fill(&mut endings, &mut batch).await;
            let written = batch.len();
            let (left, claimed) = calls.run_once(batch, claims.as_ref()).await;
            pause = match left.len() {
                0 => Duration::ZERO,
                left if left < written => Duration::ZERO,
                _ => (pause * 2).clamp(Duration::from_millis(10), MAX_PAUSE),
            };
            busy.extend(left);
            match claimed {
                Ok(()) => pauses = backoff(),
                Err(error) => claim_later(&calls.state, &error, pauses.next().unwrap_or_default()),
            }
        }
    }
}

impl Calls {
    /// Writes the endings, retrying until they are stored, and tries to claim once. Returns the
    /// endings of tasks that other transactions had locked.
    async fn run_once(
        &self,
        batch: Vec<Ended>,
        claims: Option<&mpsc::UnboundedSender<Claimed>>,
    ) -> (Vec<Ended>, Result<(), Error>) {
        let (endings, waiting): (Vec<Ending>, Vec<_>) = batch.into_iter().unzip();
        if !endings.is_empty() {
            fault::point("before_end");
        }
        let (unwritten, claimed) = match claims {
            Some(claims) => match self.end_and_claim(&endings, claims).await {
                Ok(unwritten) => (unwritten, Ok(())),
                Err(error) => (self.end(&endings).await, Err(error)),
            },
            None => (self.end(&endings).await, Ok(())),
        };
        if endings.is_empty() {
            return (Vec::new(), claimed);
        }
        fault::point("after_end");
        let mut left = Vec::new();
        for (ending, written) in endings.into_iter().zip(waiting) {
            if unwritten.busy.contains(&ending.task()) {
                left.push((ending, written));
                continue;
            }
            self.state.leases.remove(ending.lease());
            let is_lost = unwritten.lost.contains(&ending.task());
            // The receiver of an aborted attempt is gone.
            let _ = written.send(if is_lost { Written::TooLate } else { Written::Stored });
        }
        self.state.notify_other_workers();
        (left, claimed)
    }

    async fn end(&self, endings: &[Ending]) -> Unwritten {
        if endings.is_empty() {
            Unwritten::default()
        } else {
            end::write(&self.connection, endings).await
        }
    }

    async fn end_and_claim(
        &self,
        endings: &[Ending],
        claims: &mpsc::UnboundedSender<Claimed>,
    ) -> Result<Unwritten, Error> {
        let room = self.state.leases.room();
        let worker = &self.state.worker;
        let _leases_not_in_table = self.state.claiming.read().await;
        let requested_at = Instant::now();
        if endings.is_empty() {
            if room.size > 0 {
                hand_over(&self.state, worker.claim(room.size).await?, requested_at, claims);
            }
            return Ok(Unwritten::default());
        }
        let end_and_claim = worker.end_and_claim(endings, room.size).await?;
        hand_over(&self.state, end_and_claim.claims, requested_at, claims);
        end::log_lost(&end_and_claim.unwritten);
        Ok(end_and_claim.unwritten)
    }
}

/// Unlike tokio's, a sleep of zero ends at once, and not with the next tick of a millisecond.
async fn sleep(pause: Duration) {
    if !pause.is_zero() {
        tokio::time::sleep(pause).await;
    }
}

/// Adds the ends of attempts that are ready to end. This does not wait, and a batch costs little
/// more than a single end.
async fn fill(endings: &mut mpsc::UnboundedReceiver<Ended>, batch: &mut Vec<Ended>) {
    let mut before = 0;
    while before < batch.len() && batch.len() < BATCH {
        before = batch.len();
        tokio::task::yield_now().await;
        while batch.len() < BATCH
            && let Ok(ending) = endings.try_recv()
        {
            batch.push(ending);
        }
    }
}

/// Schedules another claim without blocking the loop, which goes on writing ends.
fn claim_later(state: &Arc<WorkerState>, error: &Error, pause: Duration) {
    let retry_ms = pause.as_millis();
    if error.is_transient() {
        warn_unless_outage!(error, "claim failed, retrying in {retry_ms} ms: {error}");
    } else {
        tracing::error!("claim failed, retrying in {retry_ms} ms: {error}");
    }
    let state = state.clone();
    tokio::spawn(async move {
        tokio::time::sleep(pause).await;
        state.wake.notify_one();
    });
}
