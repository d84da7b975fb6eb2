//! The model calls of an attempt, as far as they cost something without a stored answer: calls that
//! failed, and the one under way when the attempt is stopped.

use std::sync::Arc;
use std::time::{Duration, Instant};

use adjutant_agent::{BreakReason, OverBudget, Spent, Usage};
use adjutant_store::{BrokenCall, CurrentBudget, warn_unless_outage};

use crate::Task;
use crate::handler::Stop;
use crate::lease_table::lock;
use crate::model::{CallMeter, Model};
use crate::worker_state::backoff;

/// How often the report of a broken-off call is tried at the end of an attempt.
const TRIES: usize = 3;

#[derive(Debug, Default)]
pub(crate) struct TaskCalls {
    under_way: Option<CallUnderWay>,
    /// Broken off, and not in the database yet.
    unreported: Vec<BrokenCall>,
    /// The number of the last broken-off call of this attempt.
    last: i32,
    /// What broken-off calls of the task have used, of all attempts.
    spent: Spent,
    /// The limits that this attempt has warned of.
    warned: Vec<OverBudget>,
}

#[derive(Debug)]
struct CallUnderWay {
    model: Arc<Model>,
    meter: Arc<CallMeter>,
    started_at: Instant,
    answered: Option<(Usage, Duration)>,
}

impl TaskCalls {
    /// The call under way ends without a stored answer.
    fn break_off(&mut self, answer: i32, reason: BreakReason) {
        let Some(call) = self.under_way.take() else { return };
        let (usage, took, reason) = match call.answered {
            Some((usage, took)) => (usage, took, BreakReason::Unstored),
            None => {
                let Some(usage) = call.model.used(&call.meter) else { return };
                (usage, call.started_at.elapsed(), reason)
            }
        };
        self.last += 1;
        self.spent = self.spent + usage.into();
        self.unreported.push(BrokenCall {
            number: self.last,
            answer,
            model: call.model.name().to_owned(),
            reason,
            usage,
            duration_ms: i64::try_from(took.as_millis()).unwrap_or(i64::MAX),
        });
    }
}

impl Task {
    /// A call to this model is about to be made.
    pub(crate) fn begin_call(&self, model: &Arc<Model>) -> Arc<CallMeter> {
        let meter = Arc::new(CallMeter::default());
        lock(&self.calls).under_way = Some(CallUnderWay {
            model: model.clone(),
            meter: meter.clone(),
            started_at: Instant::now(),
            answered: None,
        });
        meter
    }

    /// The call has its answer, which is not stored yet.
    pub(crate) fn call_answered(&self, usage: Usage) {
        if let Some(call) = &mut lock(&self.calls).under_way {
            call.answered = Some((usage, call.started_at.elapsed()));
        }
    }

    /// The answer of the call is stored.
    pub(crate) fn call_stored(&self) {
        lock(&self.calls).under_way = None;
    }

    /// Counts the call under way, which has failed.
    pub(crate) async fn call_failed(&self) -> Result<(), Stop> {
        lock(&self.calls).break_off(self.answers() + 1, BreakReason::Failed);
        // A report stays until it is stored, because this future may be dropped.
        loop {
            let Some(call) = lock(&self.calls).unreported.first().cloned() else { return Ok(()) };
            self.retry(|| self.lease.broken_call(&call)).await?;
            lock(&self.calls).unreported.retain(|other| other.number != call.number);
        }
    }

    /// Counts what the attempt has begun and will not finish. It has ended, or is about to.
    pub(crate) async fn report_broken_calls(&self) {
        lock(&self.calls).break_off(self.answers() + 1, BreakReason::Stopped);
        let unreported = std::mem::take(&mut lock(&self.calls).unreported);
        for call in unreported {
            for (pause, tries_left) in backoff().zip((0..TRIES).rev()) {
                match self.lease.broken_call(&call).await {
                    Ok(_) => break,
                    Err(error) if error.is_transient() && tries_left > 0 => {
                        tokio::time::sleep(pause).await;
                    }
                    Err(error) => {
                        warn_unless_outage!(error,
                            task.id = %self.id(),
                            model.name = call.model,
                            "a model call of task {} that was broken off is not counted: {error}",
                            self.id()
                        );
                        break;
                    }
                }
            }
        }
    }

    /// What the broken-off calls of the task have used. Earlier attempts count after
    /// [`Task::load_broken_calls`].
    pub(crate) fn spent_on_broken_calls(&self) -> Spent {
        lock(&self.calls).spent
    }

    /// Reads what broken-off calls of earlier attempts have used.
    pub(crate) async fn load_broken_calls(&self) -> Result<(), Stop> {
        let spent = self.retry(|| self.lease.store().spent_on_broken_calls(self.id())).await?;
        lock(&self.calls).spent = spent;
        Ok(())
    }

    /// Its budget as it is now.
    pub(crate) async fn current_budget(&self) -> Result<CurrentBudget, Stop> {
        self.retry(|| self.lease.store().current_budget(self.id())).await
    }

    /// Writes an event that warns of a limit, unless this attempt has done so.
    pub(crate) async fn warn_of_budget(&self, near: OverBudget) -> Result<(), Stop> {
        let is_same = |other: &OverBudget| OverBudget { spent: near.spent, ..*other } == near;
        if lock(&self.calls).warned.iter().any(is_same) {
            return Ok(());
        }
        self.retry(|| self.lease.warn_of_budget(&near)).await?;
        lock(&self.calls).warned.push(near);
        Ok(())
    }
}
