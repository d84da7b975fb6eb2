//! What becomes of a delivery after a try.

use std::time::Duration;

/// Each pause is so many times as long as the one before: few tries span the minutes of a deploy and the hours of an outage.
const GROWTH: f64 = 6.0;

/// A pause is spread by this part of it, both ways, so that what failed together does not come back together.
const SPREAD: f64 = 0.2;

/// How often a delivery is tried, and how long after each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryRules {
    pub max_tries: i32,
    /// The pause after the first try.
    pub first: Duration,
    pub longest: Duration,
}

impl Default for RetryRules {
    /// Eight tries: at once, and after 5 s, 30 s, 3 min, 18 min, 1 h 48 min, 6 h and 6 h.
    fn default() -> Self {
        Self { max_tries: 8, first: Duration::from_secs(5), longest: Duration::from_secs(6 * 3600) }
    }
}

/// What came of a try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answered {
    /// The status, and when the receiver wants to be asked again.
    Status(u16, Option<Duration>),
    /// No answer, or none in time.
    Nothing,
    /// The URL leads where nothing is sent to.
    OutOfReach,
}

/// What becomes of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Delivered,
    Again(Duration),
    Failed,
    /// The receiver wants nothing more.
    Gone,
}

impl RetryRules {
    /// The verdict after a try, counted from 1; `lot`, from 0 to 1, spreads the pause.
    pub fn verdict(&self, tries: i32, answered: Answered, lot: f64) -> Verdict {
        let after = match answered {
            Answered::Status(200..=299, _) => return Verdict::Delivered,
            Answered::Status(410, _) => return Verdict::Gone,
            Answered::OutOfReach => return Verdict::Failed,
            Answered::Status(_, after) => after,
            Answered::Nothing => None,
        };
        if tries >= self.max_tries {
            return Verdict::Failed;
        }
        let pause = self.pause(tries).mul_f64(1.0 - SPREAD + 2.0 * SPREAD * lot.clamp(0.0, 1.0));
        // Not before the receiver's own time, but no receiver puts us off for ever.
        let asked_for = after.unwrap_or_default().min(self.longest.max(pause));
        Verdict::Again(pause.max(asked_for))
    }

    fn pause(&self, tries: i32) -> Duration {
        let seconds = self.first.as_secs_f64() * GROWTH.powi(tries.max(1) - 1);
        Duration::try_from_secs_f64(seconds).unwrap_or(self.longest).min(self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: RetryRules = RetryRules {
        max_tries: 8,
        first: Duration::from_secs(5),
        longest: Duration::from_secs(6 * 3600),
    };

    fn pause(verdict: Verdict) -> Duration {
        let Verdict::Again(pause) = verdict else { panic!("{verdict:?}") };
        pause
    }

    #[test]
    fn what_is_taken_is_delivered_and_what_is_gone_is_not_tried_again() {
        for status in [200, 201, 204, 299] {
            assert_eq!(RULES.verdict(9, Answered::Status(status, None), 0.5), Verdict::Delivered);
        }
        assert_eq!(RULES.verdict(1, Answered::Status(410, None), 0.5), Verdict::Gone);
        assert_eq!(RULES.verdict(1, Answered::OutOfReach, 0.5), Verdict::Failed);
    }

    #[test]
    fn all_else_is_tried_again_until_the_last() {
        for answered in [100, 301, 302, 307, 308, 400, 401, 404, 408, 429, 500, 503]
            .map(|status| Answered::Status(status, None))
        {
            assert_eq!(
                RULES.verdict(1, answered, 0.5),
                Verdict::Again(Duration::from_secs(5)),
                "{answered:?}"
            );
            assert_eq!(RULES.verdict(8, answered, 0.5), Verdict::Failed);
        }
        assert_eq!(RULES.verdict(8, Answered::Nothing, 0.5), Verdict::Failed);
        let pauses: Vec<u64> = (1..8)
            .map(|tries| pause(RULES.verdict(tries, Answered::Nothing, 0.5)).as_secs())
            .collect();
        assert_eq!(pauses, [5, 30, 180, 1080, 6480, 21600, 21600]);
    }

    #[test]
    fn pauses_are_spread_and_the_receivers_own_time_counts_within_bounds() {
        let again = |after, lot| pause(RULES.verdict(1, Answered::Status(503, after), lot));
        assert_eq!(
            (again(None, 0.0), again(None, 1.0)),
            (Duration::from_secs(4), Duration::from_secs(6))
        );
        let minute = Duration::from_secs(60);
        assert_eq!(again(Some(minute), 0.5), minute);
        assert_eq!(
            again(Some(Duration::from_secs(1)), 0.5),
            Duration::from_secs(5),
            "not earlier than ours"
        );
        assert_eq!(again(Some(Duration::MAX), 0.5), RULES.longest);
        let huge = RetryRules { max_tries: i32::MAX, ..RULES };
        assert_eq!(
            huge.verdict(i32::MAX - 1, Answered::Nothing, 0.5),
            Verdict::Again(RULES.longest)
        );
    }
}
