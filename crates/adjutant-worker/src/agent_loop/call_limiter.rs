//! The limits of a model over all workers. A task gets a [`CallGrant`] before each call; models
//! without limits have no limiter.

mod reservations;

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use adjutant_agent::Usage;
use adjutant_store::{ModelLimits, Remaining, WantedCall};
use tokio::sync::{mpsc, oneshot};

use crate::model::Model;
use crate::{Stop, Task};

use reservations::Reservations;

/// The limiter of one model in this process.
#[derive(Debug)]
pub(super) struct CallLimiter {
    model: String,
    limits: ModelLimits,
    /// Set by the first call.
    messages: OnceLock<mpsc::UnboundedSender<Message>>,
}

/// Whether a task may call the model.
#[derive(Debug)]
pub(super) enum Permission {
    Granted(CallGrant),
    /// The task keeps its place, and may not wait for so long in its slot.
    Later(Duration),
}

#[derive(Debug)]
enum Message {
    Wanted { call: WantedCall, answer: oneshot::Sender<Permission> },
    Ended(EndedCall),
    Remaining { remaining: Remaining, at: Instant },
}

/// A grant that was used or returned.
#[derive(Debug)]
struct EndedCall {
    second: i64,
    /// -1 if the call was not made.
    requests: i64,
    /// By how much the call's tokens differ from the estimate.
    tokens: i64,
    took: Option<Duration>,
}

/// The right to make one call soon. Dropping it reports the end of the call, or returns the grant
/// if the call was not made.
#[derive(Debug)]
pub(super) struct CallGrant {
    messages: mpsc::UnboundedSender<Message>,
    second: i64,
    /// The estimate.
    tokens: i64,
    used_tokens: Option<i64>,
    until: Instant,
    sent_at: Option<Instant>,
}

impl CallLimiter {
    /// None for a model without limits.
    pub(super) fn of(model: &Model) -> Option<Self> {
        let limits = model.limits();
        let limiter = Self { model: model.name().to_owned(), limits, messages: OnceLock::new() };
        (!limits.is_unlimited()).then_some(limiter)
    }

    /// Waits for a grant in the slot of the task, at most for the time that a task may wait there.
    pub(super) async fn permission(&self, task: &Task, tokens: i64) -> Result<Permission, Stop> {
        let messages = self
            .messages
            .get_or_init(|| Reservations::start(task, self.model.clone(), self.limits));
        let has_begun = task.attempt() > 1 || task.answers() > 0;
        let call = WantedCall { task: task.id(), tokens, has_begun };
        let (answer, answered) = oneshot::channel();
        // The loop at the other end stops only with the process.
        messages.send(Message::Wanted { call, answer }).map_err(|_| Stop::HandOver)?;
        task.unless_draining(answered).await?.map_err(|_| Stop::HandOver)
    }

    /// The tokens to reserve; 0 if only calls are limited.
    pub(super) fn estimate(&self, tokens: impl FnOnce() -> i64) -> i64 {
        if self.limits.tokens_per_minute.is_some() { tokens() } else { 0 }
    }
}

impl CallGrant {
    /// Marks the grant as used, unless it is too old to be used.
    pub(super) fn start(&mut self) -> bool {
        let now = Instant::now();
        if now < self.until {
            self.sent_at = Some(now);
        }
        self.sent_at.is_some()
    }

    /// Reports what the provider's headers allow.
    pub(super) fn report(&self, remaining: Remaining) {
        if remaining != Remaining::default() {
            // The receiver is gone only when the process ends.
            let _ = self.messages.send(Message::Remaining { remaining, at: Instant::now() });
        }
    }

    /// Ends the call, with the tokens that it used, if the server reports them.
    pub(super) fn settle(mut self, usage: &Usage) {
        let used = usage.input_tokens.saturating_add(usage.output_tokens);
        self.used_tokens = (used > 0 && self.tokens > 0).then_some(used);
    }
}

impl Drop for CallGrant {
    fn drop(&mut self) {
        let (requests, tokens) = match (self.sent_at, self.used_tokens) {
            (None, _) => (-1, -self.tokens),
            (Some(_), None) => (0, 0),
            (Some(_), Some(used)) => (0, used - self.tokens),
        };
        let took = self.sent_at.map(|sent_at| sent_at.elapsed());
        let ended = EndedCall { second: self.second, requests, tokens, took };
        let _ = self.messages.send(Message::Ended(ended));
    }
}
