//! What a task does when the call of its model fails or must not be made: its tries, which count
//! over attempts and workers; the gates that it closes; and its wait at a circuit.

use std::time::{Duration, Instant};

use adjutant_agent::{FailureKind, prompts};
use adjutant_store::{FailedCall, FailedTries, GateCause, GateReason};

use super::call_model::{CallResult, LONGEST_WAIT, ModelCall, spread};
use super::models::ModelChain;
use crate::model::{CallError, Model, Retries, Retry};
use crate::{End, Stop, Task};

/// One task of the fleet calls a model whose circuit is closed, in each period of this length.
const PROBE_EVERY: Duration = Duration::from_secs(60);

/// If the model has answered another call of this process within a probe's period, the refusal may
/// concern one task or one worker: the first probe is soon.
const FIRST_PROBE_AFTER_ANSWERS: Duration = Duration::from_secs(1);

/// How often a model with a fallback is tried before the fallback is.
const TRIES_BEFORE_FALLBACK: u32 = 3;

/// A model whose tries all failed is not tried for this time if it has a fallback, and for longer
/// than tasks wait for its gate.
const OUTAGE: Duration = Duration::from_secs(60);

/// Calls that failed often are spread over more time after a gate opens, up to this.
const WIDEST_SPREAD: Duration = Duration::from_secs(32);

/// The tries with an event: at most two for each call.
const TRIES_WITH_EVENT: [u32; 2] = [2, 5];

/// The failed tries of the call under way, over the models of its chain.
#[derive(Debug)]
pub(super) struct FailingCall {
    /// How long a task waits at circuits.
    patience: Duration,
    stored: Option<Stored>,
    /// Tries of the current model since the task came to it.
    of_this_model: u32,
}

/// What earlier attempts and workers have left.
#[derive(Debug)]
struct Stored {
    retries: Retries,
    refusals: u32,
    waits_since: Option<Instant>,
}

/// What a task does at a circuit.
pub(super) enum AtCircuit {
    /// It makes the one call.
    Probes,
    /// It looks again after this time; at once if the circuit has opened.
    Waits(Duration),
    Leaves(CallResult),
}

impl FailingCall {
    pub(super) fn new(patience: Duration) -> Self {
        Self { patience, stored: None, of_this_model: 0 }
    }

    /// The call has an answer: the next one starts anew.
    pub(super) fn answered(&mut self) {
        *self = Self::new(self.patience);
    }

    /// The calls of another model of the chain start.
    pub(super) fn enters_model(&mut self) {
        self.of_this_model = 0;
    }

    /// Records a try that failed, closes the gate or circuit that it calls for, and pauses; or says
    /// what the task does instead of another try.
    pub(super) async fn failed(
        &mut self,
        task: &Task,
        chain: &ModelChain,
        call: &ModelCall<'_>,
        failure: Failure<'_>,
    ) -> Result<Option<CallResult>, Stop> {
        let Failure { error, took, is_probe } = failure;
        let model = &chain.current().model;
        let stored = self.load(task, chain).await?;
        let retry = stored.retries.after(error, took);
        if retry == Retry::CloseCircuit {
            stored.refusals += 1;
            // Other calls are answered, so it is this request that is refused.
            if error.status() == Some(403) && !is_probe && stored.refusals > 1 {
                log_failure(task, model, error, &Retry::GiveUp);
                return Ok(Some(failed(call, model, error.details())));
            }
            close_circuit(task, model, error).await?;
            return Ok(None);
        }
        self.of_this_model += 1;
        let is_tried_again = matches!(retry, Retry::After(_) | Retry::CloseGate(_));
        let retry = if is_tried_again && self.leaves_model(chain) { Retry::GiveUp } else { retry };
        let next_try = match retry {
            Retry::After(pause) | Retry::CloseGate(pause) => pause,
            Retry::CloseCircuit | Retry::GiveUp => Duration::ZERO,
        };
        match retry {
            Retry::GiveUp => {
                log_failure(task, model, error, &retry);
                self.give_up(task, chain, call, error).await.map(Some)
            }
            Retry::CloseGate(time) => {
                self.record(task, model, error, next_try).await?;
                close_gate(task, model, time, error).await?;
                Ok(None)
            }
            Retry::After(pause) => {
                self.record(task, model, error, next_try).await?;
                log_failure(task, model, error, &retry);
                task.pause(pause).await;
                Ok(None)
            }
            Retry::CloseCircuit => Ok(None),
        }
    }

    fn leaves_model(&self, chain: &ModelChain) -> bool {
        chain.patience().is_some() && self.of_this_model >= TRIES_BEFORE_FALLBACK
    }

    /// After the last try of a model. One that is down is closed for the next calls too, so that
    /// they go to its fallback at once.
    async fn give_up(
        &mut self,
        task: &Task,
        chain: &ModelChain,
        call: &ModelCall<'_>,
        error: &CallError,
    ) -> Result<CallResult, Stop> {
        let model = &chain.current().model;
        let Some(patience) = chain.patience() else {
            return Ok(failed(call, model, error.details()));
        };
        if let CallError::Permanent { .. } = error {
            return Ok(failed(call, model, error.details()));
        }
        if chain.has_next() {
            let says = model.says(error.summary());
            let cause = GateCause {
                reason: GateReason::Outage,
                status: error.status(),
                error: Some(&says),
            };
            let time = OUTAGE.max(patience * 2);
            let is_new = task.close_gate(model.name(), time, cause).await?;
            log_closed(model, &cause, time, is_new);
        }
        let is_last = self
            .stored
            .as_ref()
            .is_some_and(|stored| stored.retries.tries() >= stored.retries.max_tries());
        if is_last {
            return Ok(failed(call, model, error.details()));
        }
        self.record(task, model, error, Duration::ZERO).await?;
        let error = prompts::model_error(model.says(error.details()));
        Ok(CallResult::Unavailable { closed_for: None, error })
    }

    /// At a circuit that is closed: makes the one call if it is time for it, else waits with the
    /// others until one has succeeded, or until its patience is over.
    pub(super) async fn at_circuit(
        &mut self,
        task: &Task,
        chain: &ModelChain,
        call: &ModelCall<'_>,
    ) -> Result<AtCircuit, Stop> {
        let model = &chain.current().model;
        let probe = task.take_probe(model.name(), PROBE_EVERY).await?;
        if probe.is_taken {
            return Ok(AtCircuit::Probes);
        }
        if probe.closed_for.is_zero() {
            return Ok(AtCircuit::Waits(Duration::ZERO));
        }
        let closed_for = probe.closed_for;
        let error = probe.error.unwrap_or_default();
        if chain.has_next() {
            let error = prompts::model_error(&error);
            return Ok(AtCircuit::Leaves(CallResult::Unavailable {
                closed_for: Some(closed_for),
                error,
            }));
        }
        let patience = self.patience;
        let stored = self.load(task, chain).await?;
        let is_first = stored.waits_since.is_none();
        let waited = stored.waits_since.get_or_insert_with(Instant::now).elapsed();
        let Some(left) = patience.checked_sub(waited).filter(|left| !left.is_zero()) else {
            let says = format!("{error}; the task has waited for {} s", patience.as_secs());
            let end = call.give_up(FailureKind::Model, prompts::model_error(says));
            return Ok(AtCircuit::Leaves(CallResult::Ended(end)));
        };
        let what = error.strip_prefix(&model.says("")).unwrap_or(&error);
        let recorded = stored.recorded(model, probe.status, what, closed_for, Some(left));
        task.record_failed_call(&recorded, is_first.then_some(error.as_str())).await?;
        let wait = closed_for.min(left);
        Ok(if chain.patience().is_some() {
            AtCircuit::Leaves(CallResult::Unavailable { closed_for: Some(wait), error })
        } else if wait > LONGEST_WAIT {
            AtCircuit::Leaves(CallResult::Ended(End::Released { delay: Some(spread(wait)) }))
        } else {
            AtCircuit::Waits(spread(wait))
        })
    }

    /// Over how much time the calls are spread that wait for a gate: one that has failed often does
    /// not call at once again, so that it sees if the gate closes again and saves a try.
    pub(super) fn spread(&self, opens_in: Duration) -> Duration {
        let tries = self.stored.as_ref().map_or(0, |stored| stored.retries.tries());
        (1..tries.min(8))
            .fold(spread(opens_in), |wait, _| opens_in + (wait - opens_in) * 2)
            .min(opens_in + WIDEST_SPREAD)
    }

    async fn record(
        &mut self,
        task: &Task,
        model: &Model,
        error: &CallError,
        next_try: Duration,
    ) -> Result<(), Stop> {
        let Some(stored) = &mut self.stored else { return Ok(()) };
        stored.waits_since = None;
        let (tries, max_tries) = (stored.retries.tries(), stored.retries.max_tries());
        let call = stored.recorded(model, error.status(), error.summary(), next_try, None);
        let detail = TRIES_WITH_EVENT
            .contains(&tries)
            .then(|| model.says(format!("{}, try {tries} of {max_tries}", error.summary())));
        task.record_failed_call(&call, detail.as_deref()).await
    }

    /// Reads what earlier attempts have left, once in each attempt, and only if a call fails.
    async fn load(&mut self, task: &Task, chain: &ModelChain) -> Result<&mut Stored, Stop> {
        let stored = match self.stored.take() {
            Some(stored) => stored,
            None => {
                let FailedTries { tries, refusals, spent, waited } = task.failed_tries().await?;
                let retries = match chain.patience() {
                    Some(_) => Retries::at_most(TRIES_BEFORE_FALLBACK * chain.len()),
                    None => Retries::default(),
                };
                let now = Instant::now();
                Stored {
                    retries: retries.resume(tries, spent),
                    refusals,
                    waits_since: waited.map(|waited| now.checked_sub(waited).unwrap_or(now)),
                }
            }
        };
        Ok(self.stored.insert(stored))
    }
}

impl Stored {
    fn recorded<'a>(
        &self,
        model: &'a Model,
        status: Option<u16>,
        error: &'a str,
        next_try: Duration,
        waits: Option<Duration>,
    ) -> FailedCall<'a> {
        let tries = FailedTries {
            tries: self.retries.tries(),
            refusals: self.refusals,
            spent: self.retries.spent(),
            waited: None,
        };
        let (host, max_tries) = (model.address(), self.retries.max_tries());
        FailedCall { model: model.name(), host, tries, max_tries, status, error, next_try, waits }
    }
}

/// A try that failed.
pub(super) struct Failure<'a> {
    pub(super) error: &'a CallError,
    pub(super) took: Duration,
    /// It was the one call of a circuit.
    pub(super) is_probe: bool,
}

fn failed(call: &ModelCall<'_>, model: &Model, what: impl std::fmt::Display) -> CallResult {
    let error = prompts::model_error(model.says(what));
    CallResult::Ended(call.give_up(FailureKind::Model, error))
}

async fn close_circuit(task: &Task, model: &Model, error: &CallError) -> Result<(), Stop> {
    let says = model.says(error.summary());
    let cause =
        GateCause { reason: GateReason::Circuit, status: error.status(), error: Some(&says) };
    let is_answered = model.trouble().answered_within(PROBE_EVERY);
    let time = if is_answered { FIRST_PROBE_AFTER_ANSWERS } else { PROBE_EVERY };
    let is_new = task.close_gate(model.name(), time, cause).await?;
    log_closed(model, &cause, time, is_new);
    Ok(())
}

async fn close_gate(
    task: &Task,
    model: &Model,
    time: Duration,
    error: &CallError,
) -> Result<(), Stop> {
    let says = model.says(error.summary());
    let cause =
        GateCause { reason: GateReason::RateLimit, status: error.status(), error: Some(&says) };
    let is_new = task.close_gate(model.name(), time, cause).await?;
    if is_new {
        // Its next answer logs that the model answers again.
        model.trouble().began();
    }
    log_closed(model, &cause, time, is_new);
    Ok(())
}

/// The first success after failures.
pub(super) async fn answered(task: &Task, model: &Model, is_probe: bool) -> Result<(), Stop> {
    if is_probe && task.open_circuit(model.name()).await? {
        tracing::info!(
            model.name = model.name(),
            server.address = model.address(),
            "model {} at {} accepts calls again: its circuit is open",
            model.name(),
            model.address()
        );
    }
    if model.trouble().ended() {
        tracing::info!(
            model.name = model.name(),
            server.address = model.address(),
            "model {} at {} answers again",
            model.name(),
            model.address()
        );
    }
    Ok(())
}

/// The one process that closed a gate names it; the others are silent.
fn log_closed(model: &Model, cause: &GateCause<'_>, time: Duration, is_new: bool) {
    let (reason, says) = (cause.reason.as_str(), cause.error.unwrap_or_default());
    let until = chrono::Utc::now() + time;
    let until = adjutant_agent::timestamp::utc(until);
    if is_new {
        tracing::warn!(
            model.name = model.name(),
            server.address = model.address(),
            gate.reason = reason,
            gate.until = until,
            "gate of model {} closed ({reason}) until {until}: {says}",
            model.name()
        );
    } else {
        tracing::debug!(model.name = model.name(), gate.reason = reason, "{says}");
    }
}

/// A failure that closes no gate: the first one of a model is a warning, for a task that fails it
/// always is.
fn log_failure(task: &Task, model: &Model, error: &CallError, retry: &Retry) {
    let (id, name, says) = (task.id(), model.name(), model.says(error.summary()));
    match retry {
        Retry::GiveUp => {
            tracing::warn!(
                task.id = %id,
                model.name = name,
                error.type = error.kind(),
                "model call for task {id} failed, giving up: {says}"
            );
        }
        Retry::After(_) | Retry::CloseGate(_) | Retry::CloseCircuit if model.trouble().began() => {
            tracing::warn!(
                task.id = %id,
                model.name = name,
                error.type = error.kind(),
                "model calls fail and are tried again, first for task {id}: {says}"
            );
        }
        Retry::After(_) | Retry::CloseGate(_) | Retry::CloseCircuit => {
            tracing::debug!(
                task.id = %id,
                model.name = name,
                error.type = error.kind(),
                "model call for task {id} failed, retrying: {says}"
            );
        }
    }
}
