use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};

use super::CallError;

const MAX_ATTEMPTS: u32 = 8;
const MAX_TIME: Duration = Duration::from_secs(300);
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(20);
/// If a provider asks for a longer pause than this, its gate is closed for all workers, and the
/// task does not wait in its slot.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
const FIRST_GATE_PAUSE: Duration = Duration::from_secs(1);

/// The retry policy of one model call: at most 8 attempts within 5 minutes of calls and pauses.
///
/// Pauses that the provider asks for do not count, and a call that took the 5 minutes by itself is
/// retried once.
#[derive(Debug)]
pub struct Retries {
    max_attempts: u32,
    pauses: ExponentialBackoff,
    gate_pauses: ExponentialBackoff,
    attempts: u32,
    spent: Duration,
}

/// What to do after a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Retry after this time.
    After(Duration),
    /// Close the model's gate for all workers for this time, and retry when it is open.
    CloseGate(Duration),
    GiveUp,
}

impl Default for Retries {
    fn default() -> Self {
        let pauses =
            ExponentialBuilder::default().without_max_times().with_max_delay(LONGEST_PAUSE);
        Self {
            max_attempts: MAX_ATTEMPTS,
            pauses: pauses.with_min_delay(FIRST_PAUSE).with_jitter().build(),
            // Without jitter: calls that wait for a gate are spread after it opens.
            gate_pauses: pauses
                .with_min_delay(FIRST_GATE_PAUSE)
                .with_max_delay(Duration::from_secs(60))
                .build(),
            attempts: 0,
            spent: Duration::ZERO,
        }
    }
}

impl Retries {
    /// The same policy with fewer attempts.
    pub fn at_most(attempts: u32) -> Self {
        Self { max_attempts: attempts, ..Self::default() }
    }

    /// The number of failed attempts.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// What to do after an attempt that failed with `error` after the time `took`.
    pub fn after(&mut self, error: &CallError, took: Duration) -> Retry {
        self.attempts += 1;
        self.spent += took;
        // A pause of zero must not use up all attempts at once.
        let requested = error.retry_after().filter(|wait| !wait.is_zero());
        match error {
            CallError::Permanent { .. } => Retry::GiveUp,
            CallError::RateLimited { .. } => {
                let pause = self.gate_pauses.next().unwrap_or(LONGEST_PAUSE);
                self.unless_exhausted(Retry::CloseGate(requested.unwrap_or(pause)))
            }
            CallError::Transient { .. } if requested > Some(LONGEST_WAIT) => {
                self.unless_exhausted(Retry::CloseGate(requested.unwrap_or(LONGEST_WAIT)))
            }
            CallError::Transient { .. } => {
                let pause = self.pauses.next().unwrap_or(LONGEST_PAUSE);
                self.spent += pause;
                self.unless_exhausted(Retry::After(requested.map_or(pause, |wait| wait.max(pause))))
            }
        }
    }

    fn unless_exhausted(&self, retry: Retry) -> Retry {
        let is_exhausted =
            self.attempts >= self.max_attempts || (self.attempts > 1 && self.spent > MAX_TIME);
        if is_exhausted { Retry::GiveUp } else { retry }
    }
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
}
