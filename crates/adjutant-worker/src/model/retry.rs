use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};

use super::CallError;

const TRIES: u32 = 8;
const WITHIN: Duration = Duration::from_secs(300);
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(20);
/// A provider that wants to be left alone for longer than this is away for everybody, and not waited for in a slot.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
const FIRST_CLOSING: Duration = Duration::from_secs(1);

/// The tries of one model call: says after each that failed whether there is another.
///
/// At most 8, within 5 minutes of calls and pauses. What the provider itself has us wait is not counted, and a call that
/// took the 5 minutes all by itself is still tried once more.
#[derive(Debug)]
pub struct Retries {
    pauses: ExponentialBackoff,
    closings: ExponentialBackoff,
    tries: u32,
    spent: Duration,
}

/// What to do after a try that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Try again after this long.
    Again(Duration),
    /// Close the model's gate for this long, for everyone, and try again when it is open.
    GateFor(Duration),
    GiveUp,
}

impl Default for Retries {
    fn default() -> Self {
        let pauses = ExponentialBuilder::default().without_max_times().with_max_delay(LONGEST_PAUSE);
        Self {
            pauses: pauses.with_min_delay(FIRST_PAUSE).with_jitter().build(),
            // All workers wait for the same gate, and spread out behind it.
            closings: pauses.with_min_delay(FIRST_CLOSING).with_max_delay(Duration::from_secs(60)).build(),
            tries: 0,
            spent: Duration::ZERO,
        }
    }
}

impl Retries {
    /// How many tries have failed.
    pub fn tries(&self) -> u32 {
        self.tries
    }

    /// What to do after a try that failed with `error`, and `took` this long from the start of the call.
    pub fn after(&mut self, error: &CallError, took: Duration) -> Retry {
        self.tries += 1;
        self.spent += took;
        // Not even a time of zero may make all tries at once.
        let asked_for = error.retry_after().filter(|wait| !wait.is_zero());
        match error {
            CallError::Final { .. } => Retry::GiveUp,
            CallError::RateLimited { .. } => {
                let closing = self.closings.next().unwrap_or(LONGEST_PAUSE);
                self.unless_over(Retry::GateFor(asked_for.unwrap_or(closing)))
            }
            CallError::Passing { .. } if asked_for > Some(LONGEST_WAIT) => {
                self.unless_over(Retry::GateFor(asked_for.unwrap_or(LONGEST_WAIT)))
            }
            CallError::Passing { .. } => {
                let pause = self.pauses.next().unwrap_or(LONGEST_PAUSE);
                self.spent += pause;
                self.unless_over(Retry::Again(asked_for.map_or(pause, |wait| wait.max(pause))))
            }
        }
    }

    fn unless_over(&self, retry: Retry) -> Retry {
        let is_over = self.tries >= TRIES || (self.tries > 1 && self.spent > WITHIN);
        if is_over { Retry::GiveUp } else { retry }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn passing(retry_after: Option<Duration>) -> CallError {
        CallError::Passing { retry_after, details: Default::default() }
    }

    fn limited(retry_after: Option<Duration>) -> CallError {
        CallError::RateLimited { retry_after, details: Default::default() }
    }

    /// What is said after each try, until the last.
    fn course(error: &CallError, took: Duration) -> Vec<Retry> {
        let mut retries = Retries::default();
        let mut course = Vec::new();
        while course.last() != Some(&Retry::GiveUp) {
            course.push(retries.after(error, took));
        }
        course
    }

    #[test]
    fn a_failure_that_may_pass_is_tried_eight_times_with_growing_pauses() {
        let course = course(&passing(None), SECOND);
        assert_eq!(course.len(), 8);
        for (n, retry) in course[..7].iter().enumerate() {
            let least = (FIRST_PAUSE * 2_u32.pow(n.try_into().unwrap())).min(LONGEST_PAUSE);
            let Retry::Again(pause) = retry else { panic!("{retry:?}") };
            assert!((least..=least * 2).contains(pause), "{n}: {pause:?}");
        }
    }

    #[test]
    fn no_try_begins_after_five_minutes_of_calls_and_pauses() {
        assert_eq!(course(&passing(None), 100 * SECOND).len(), 3);
        assert_eq!(course(&limited(Some(SECOND)), 100 * SECOND).len(), 4);
    }

    #[test]
    fn a_call_that_took_the_five_minutes_by_itself_is_tried_once_more() {
        assert_eq!(course(&passing(None), 1000 * SECOND).len(), 2);
    }

    #[test]
    fn what_the_provider_has_us_wait_is_not_counted() {
        let wait = Some(1000 * SECOND);
        assert_eq!(course(&limited(wait), SECOND)[..7], [Retry::GateFor(1000 * SECOND); 7]);
        assert_eq!(course(&passing(wait), SECOND)[..7], [Retry::GateFor(1000 * SECOND); 7]);
    }

    #[test]
    fn a_provider_that_is_away_for_long_is_away_for_everybody() {
        for (wait, retry) in [(10, Retry::Again(10 * SECOND)), (11, Retry::GateFor(11 * SECOND))] {
            assert_eq!(Retries::default().after(&passing(Some(wait * SECOND)), SECOND), retry);
        }
    }

    #[test]
    fn a_rate_limit_without_a_time_closes_the_gate_for_longer_each_time() {
        let closings = [1, 2, 4, 8, 16, 32, 60].map(|n| Retry::GateFor(n * SECOND));
        assert_eq!(course(&limited(None), SECOND)[..7], closings);
        assert_eq!(course(&limited(Some(Duration::ZERO)), SECOND)[..7], closings);
    }

    #[test]
    fn what_will_fail_again_is_not_tried_again() {
        assert_eq!(Retries::default().after(&CallError::fatal(""), SECOND), Retry::GiveUp);
    }
}
