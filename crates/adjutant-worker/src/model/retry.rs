use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};

use super::CallError;

const MAX_TRIES: u32 = 8;
const MAX_TIME: Duration = Duration::from_secs(300);
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(20);
/// If a provider asks for a longer pause than this, its gate is closed for all workers, and the
/// task does not wait in its slot.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
const FIRST_GATE_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_GATE_PAUSE: Duration = Duration::from_secs(60);

/// The retry policy of one model call: at most 8 tries within 5 minutes of calls and pauses, over
/// attempts and workers.
///
/// Pauses that the provider asks for do not count, and a call that took the 5 minutes by itself is
/// retried once. A refusal of the key is no try.
#[derive(Debug, Clone)]
pub struct Retries {
    max_tries: u32,
    tries: u32,
    spent: Duration,
}

/// What to do after a failed try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Retry after this time.
    After(Duration),
    /// Close the model's gate for all workers for this time, and retry when it is open.
    CloseGate(Duration),
    /// Close the model's gate for all workers until a call succeeds.
    CloseCircuit,
    GiveUp,
}

impl Default for Retries {
    fn default() -> Self {
        Self::at_most(MAX_TRIES)
    }
}

impl Retries {
    /// The same policy with another number of tries.
    pub fn at_most(max_tries: u32) -> Self {
        Self { max_tries, tries: 0, spent: Duration::ZERO }
    }

    /// Goes on after the tries of earlier attempts, which took this time.
    pub fn resume(self, tries: u32, spent: Duration) -> Self {
        Self { tries, spent, ..self }
    }

    /// The number of failed tries.
    pub fn tries(&self) -> u32 {
        self.tries
    }

    pub fn max_tries(&self) -> u32 {
        self.max_tries
    }

    /// The time of these tries and of the pauses between them.
    pub fn spent(&self) -> Duration {
        self.spent
    }

    /// What to do after a try that failed with `error` after the time `took`.
    pub fn after(&mut self, error: &CallError, took: Duration) -> Retry {
        if let CallError::Refused { .. } = error {
            return Retry::CloseCircuit;
        }
        self.tries += 1;
        self.spent += took;
        // A pause of zero must not use up all tries at once.
        let requested = error.retry_after().filter(|wait| !wait.is_zero());
        match error {
            CallError::Permanent { .. }
            | CallError::OutOfCredit { .. }
            | CallError::Refused { .. } => Retry::GiveUp,
            CallError::RateLimited { .. } => {
                self.unless_exhausted(Retry::CloseGate(requested.unwrap_or(self.gate_pause())))
            }
            CallError::Transient { .. } if requested > Some(LONGEST_WAIT) => {
                self.unless_exhausted(Retry::CloseGate(requested.unwrap_or(LONGEST_WAIT)))
            }
            CallError::Transient { .. } => {
                let pause = self.pause();
                self.spent += pause;
                self.unless_exhausted(Retry::After(requested.map_or(pause, |wait| wait.max(pause))))
            }
        }
    }

    fn pause(&self) -> Duration {
        let pauses = growing(FIRST_PAUSE, LONGEST_PAUSE).with_jitter();
        self.of_this_try(pauses)
    }

    /// Without jitter: calls that wait for a gate are spread after it opens.
    fn gate_pause(&self) -> Duration {
        self.of_this_try(growing(FIRST_GATE_PAUSE, LONGEST_GATE_PAUSE))
    }

    fn of_this_try(&self, pauses: ExponentialBuilder) -> Duration {
        let before = usize::try_from(self.tries.saturating_sub(1)).unwrap_or_default();
        pauses.build().nth(before).unwrap_or(LONGEST_PAUSE)
    }

    fn unless_exhausted(&self, retry: Retry) -> Retry {
        let is_exhausted =
            self.tries >= self.max_tries || (self.tries > 1 && self.spent > MAX_TIME);
        if is_exhausted { Retry::GiveUp } else { retry }
    }
}

fn growing(first: Duration, longest: Duration) -> ExponentialBuilder {
    let pauses = ExponentialBuilder::default().without_max_times();
    pauses.with_min_delay(first).with_max_delay(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn transient(retry_after: Option<Duration>) -> CallError {
        CallError::Transient { retry_after, details: Default::default() }
    }

    fn limited(retry_after: Option<Duration>) -> CallError {
        CallError::RateLimited { retry_after, details: Default::default() }
    }

    /// The decisions after each attempt, until it gives up.
    fn decisions(error: &CallError, took: Duration) -> Vec<Retry> {
        let mut retries = Retries::default();
        let mut decisions = Vec::new();
        while decisions.last() != Some(&Retry::GiveUp) {
            decisions.push(retries.after(error, took));
        }
        decisions
    }

    #[test]
    fn a_transient_error_is_tried_eight_times_with_growing_pauses() {
        let decisions = decisions(&transient(None), SECOND);
        assert_eq!(decisions.len(), 8);
        for (n, retry) in decisions[..7].iter().enumerate() {
            let least = (FIRST_PAUSE * 2_u32.pow(n.try_into().unwrap())).min(LONGEST_PAUSE);
            let Retry::After(pause) = retry else { panic!("{retry:?}") };
            assert!((least..=least * 2).contains(pause), "{n}: {pause:?}");
        }
    }

    #[test]
    fn no_attempt_starts_after_five_minutes_of_calls_and_pauses() {
        assert_eq!(decisions(&transient(None), 100 * SECOND).len(), 3);
        assert_eq!(decisions(&limited(Some(SECOND)), 100 * SECOND).len(), 4);
    }

    #[test]
    fn a_call_that_took_the_five_minutes_by_itself_is_retried_once() {
        assert_eq!(decisions(&transient(None), 1000 * SECOND).len(), 2);
    }

    #[test]
    fn pauses_that_the_provider_asks_for_do_not_count() {
        let wait = Some(1000 * SECOND);
        assert_eq!(decisions(&limited(wait), SECOND)[..7], [Retry::CloseGate(1000 * SECOND); 7]);
        assert_eq!(decisions(&transient(wait), SECOND)[..7], [Retry::CloseGate(1000 * SECOND); 7]);
    }

    #[test]
    fn a_long_pause_closes_the_gate_for_all_workers() {
        for (wait, retry) in [(10, Retry::After(10 * SECOND)), (11, Retry::CloseGate(11 * SECOND))]
        {
            assert_eq!(Retries::default().after(&transient(Some(wait * SECOND)), SECOND), retry);
        }
    }

    #[test]
    fn a_rate_limit_without_a_time_closes_the_gate_for_longer_each_time() {
        let gate_pauses = [1, 2, 4, 8, 16, 32, 60].map(|n| Retry::CloseGate(n * SECOND));
        assert_eq!(decisions(&limited(None), SECOND)[..7], gate_pauses);
        assert_eq!(decisions(&limited(Some(Duration::ZERO)), SECOND)[..7], gate_pauses);
    }

    #[test]
    fn a_permanent_error_is_not_retried() {
        assert_eq!(Retries::default().after(&CallError::permanent(""), SECOND), Retry::GiveUp);
    }

    #[test]
    fn tries_of_earlier_attempts_count() {
        let mut retries = Retries::default().resume(6, 10 * SECOND);
        let error = limited(Some(30 * SECOND));
        assert_eq!(retries.after(&error, SECOND), Retry::CloseGate(30 * SECOND));
        assert_eq!(retries.after(&error, SECOND), Retry::GiveUp);
        assert_eq!((retries.tries(), retries.spent()), (8, 12 * SECOND));
        let mut retries = Retries::default().resume(2, 300 * SECOND);
        assert_eq!(retries.after(&transient(None), SECOND), Retry::GiveUp);
    }

    #[test]
    fn a_refusal_of_the_key_is_no_try_and_an_empty_account_is_final() {
        let mut retries = Retries::default();
        let refused = CallError::Refused { details: Default::default() };
        for _ in 0..100 {
            assert_eq!(retries.after(&refused, SECOND), Retry::CloseCircuit);
        }
        assert_eq!(retries.tries(), 0);
        let empty = CallError::OutOfCredit { details: Default::default() };
        assert_eq!(retries.after(&empty, SECOND), Retry::GiveUp);
    }
}
