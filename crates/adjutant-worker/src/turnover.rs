//! Turns slots over: writes what has ended and claims what comes next, in one call. While one call is under way the next batch
//! gathers; nothing waits for company. A second call beside the first would make both batches smaller, and cost more than it
//! gains.

use std::sync::Arc;
use std::time::{Duration, Instant};

use adjutant_store::{Ending, Error, Store, Unwritten};
use tokio::sync::mpsc;

use crate::claim::{Claimed, hand_on};
use crate::end;
use crate::fault;
use crate::station::{Ended, Station, Written, backoff};

/// More at once would hold many sessions for long.
const BATCH: usize = 50;

/// The loop.
pub(crate) struct Turnover {
    pub(crate) calls: Calls,
    /// Gone when the worker drains: nothing is claimed any more.
    pub(crate) claims: Option<mpsc::UnboundedSender<Claimed>>,
    pub(crate) endings: mpsc::UnboundedReceiver<Ended>,
}

/// The calls that it makes, on a connection of their own.
pub(crate) struct Calls {
    pub(crate) station: Arc<Station>,
    pub(crate) line: Store,
}

impl Turnover {
    /// Goes on for as long as something may end.
    pub(crate) async fn run(mut self) {
        let (mut endings, mut claims) = (self.endings, self.claims.take());
        let calls = &self.calls;
        let mut batch = Vec::new();
        let mut pauses = backoff();
        loop {
            // What was left is on its way at once.
            if batch.is_empty() {
                tokio::select! {
                    biased;
                    () = calls.station.draining.cancelled(), if claims.is_some() => {
                        claims = None;
                        continue;
                    }
                    _ = endings.recv_many(&mut batch, BATCH) => {}
                    () = calls.station.wake.notified() => {}
                }
            }
            if calls.station.draining.is_cancelled() {
                claims = None;
            }
            gather(&mut endings, &mut batch).await;
            let (busy, claimed) = calls.turn(batch, claims.as_ref()).await;
            batch = busy;
            match claimed {
                Ok(()) => pauses = backoff(),
                Err(error) => claim_later(&calls.station, &error, pauses.next().unwrap_or_default()),
            }
        }
    }
}

impl Calls {
    /// One call. What others were busy with is left; endings are written whatever it takes, and claims are tried once.
    async fn turn(
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
            self.station.held.remove(ending.lease());
            let is_lost = unwritten.lost.contains(&ending.task());
            // Who was cut off does not wait any more.
            let _ = written.send(if is_lost { Written::TooLate } else { Written::Stored });
        }
        self.station.tell_others();
        (left, claimed)
    }

    async fn end(&self, endings: &[Ending]) -> Unwritten {
        if endings.is_empty() { Unwritten::default() } else { end::write(&self.line, endings).await }
    }

    async fn end_and_claim(
        &self,
        endings: &[Ending],
        claims: &mpsc::UnboundedSender<Claimed>,
    ) -> Result<Unwritten, Error> {
        let room = self.station.held.room();
        let worker = &self.station.worker;
        let _known = self.station.claiming.read().await;
        let asked_at = Instant::now();
        if endings.is_empty() {
            if room.size > 0 {
                hand_on(&self.station, worker.claim(room.size).await?, asked_at, claims);
            }
            return Ok(Unwritten::default());
        }
        let turnover = worker.turn_over(endings, room.size).await?;
        hand_on(&self.station, turnover.claims, asked_at, claims);
        end::say_what_is_lost(&turnover.unwritten);
        Ok(turnover.unwritten)
    }
}

/// Lets those attempts end that are ready to: it takes no time, and a batch costs little more than a single one.
async fn gather(endings: &mut mpsc::UnboundedReceiver<Ended>, batch: &mut Vec<Ended>) {
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

/// Not waiting for it: endings go on.
fn claim_later(station: &Arc<Station>, error: &Error, pause: Duration) {
    let again_ms = pause.as_millis();
    if error.is_passing() {
        tracing::warn!("cannot claim, trying again in {again_ms} ms: {error}");
    } else {
        tracing::error!("cannot claim, trying again in {again_ms} ms: {error}");
    }
    let station = station.clone();
    tokio::spawn(async move {
        tokio::time::sleep(pause).await;
        station.wake.notify_one();
    });
}
