//! The retry policy of webhook deliveries.

use std::time::Duration;

/// The factor between two pauses, so that few tries span the minutes of a deploy and the hours of
/// an outage.
const BACKOFF_FACTOR: f64 = 6.0;

/// The jitter of a pause, as a fraction of it in both directions, so that deliveries that failed
/// together are not retried together.
const JITTER: f64 = 0.2;

/// The number of tries of a delivery, and the pauses between them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryPolicy {
    pub max_tries: i32,
    /// The pause after the first try.
    pub first_pause: Duration,
    pub max_pause: Duration,
}

impl Default for RetryPolicy {
    /// Eight tries: at once, and after 5 s, 30 s, 3 min, 18 min, 1 h 48 min, 6 h and 6 h.
    fn default() -> Self {
        Self {
            max_tries: 8,
            first_pause: Duration::from_secs(5),
            max_pause: Duration::from_secs(6 * 3600),
        }
    }
}

/// The result of one try to post a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PostResult {
    /// The response's status and its `Retry-After`.
    Status(u16, Option<Duration>),
    /// No response, or none in time.
    NoResponse,
    /// The network policy forbids the URL's address.
    ForbiddenAddress,
}

/// What to do with a delivery after a try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryDecision {
    Delivered,
    /// Try again after this pause.
    Retry(Duration),
    Failed,
    /// The receiver answered 410: disable the webhook.
    Gone,
}

impl RetryPolicy {
    /// Decides after the try number `tries`, counted from 1. `random`, from 0 to 1, sets the
    /// jitter.
    pub fn decide(&self, tries: i32, result: PostResult, random: f64) -> DeliveryDecision {
        let after = match result {
            PostResult::Status(200..=299, _) => return DeliveryDecision::Delivered,
            PostResult::Status(410, _) => return DeliveryDecision::Gone,
            PostResult::ForbiddenAddress => return DeliveryDecision::Failed,
            PostResult::Status(_, after) => after,
            PostResult::NoResponse => None,
        };
        if tries >= self.max_tries {
            return DeliveryDecision::Failed;
        }
        let pause = self.pause(tries).mul_f64(1.0 - JITTER + 2.0 * JITTER * random.clamp(0.0, 1.0));
        // At least the receiver's `Retry-After`, but at most the longest pause.
        let requested = after.unwrap_or_default().min(self.max_pause.max(pause));
        DeliveryDecision::Retry(pause.max(requested))
    }

    fn pause(&self, tries: i32) -> Duration {
        let seconds = self.first_pause.as_secs_f64() * BACKOFF_FACTOR.powi(tries.max(1) - 1);
        Duration::try_from_secs_f64(seconds).unwrap_or(self.max_pause).min(self.max_pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: RetryPolicy = RetryPolicy {
        max_tries: 8,
        first_pause: Duration::from_secs(5),
        max_pause: Duration::from_secs(6 * 3600),
    };

    fn pause(verdict: DeliveryDecision) -> Duration {
        let DeliveryDecision::Retry(pause) = verdict else { panic!("{verdict:?}") };
        pause
    }

    #[test]
    fn what_is_taken_is_delivered_and_what_is_gone_is_not_tried_again() {
        for status in [200, 201, 204, 299] {
            assert_eq!(
                POLICY.decide(9, PostResult::Status(status, None), 0.5),
                DeliveryDecision::Delivered
            );
        }
        assert_eq!(POLICY.decide(1, PostResult::Status(410, None), 0.5), DeliveryDecision::Gone);
        assert_eq!(POLICY.decide(1, PostResult::ForbiddenAddress, 0.5), DeliveryDecision::Failed);
    }

    #[test]
    fn all_else_is_tried_again_until_the_last() {
        for answered in [100, 301, 302, 307, 308, 400, 401, 404, 408, 429, 500, 503]
            .map(|status| PostResult::Status(status, None))
        {
            assert_eq!(
                POLICY.decide(1, answered, 0.5),
                DeliveryDecision::Retry(Duration::from_secs(5)),
                "{answered:?}"
            );
            assert_eq!(POLICY.decide(8, answered, 0.5), DeliveryDecision::Failed);
        }
        assert_eq!(POLICY.decide(8, PostResult::NoResponse, 0.5), DeliveryDecision::Failed);
        let pauses: Vec<u64> = (1..8)
            .map(|tries| pause(POLICY.decide(tries, PostResult::NoResponse, 0.5)).as_secs())
            .collect();
        assert_eq!(pauses, [5, 30, 180, 1080, 6480, 21600, 21600]);
    }

    #[test]
    fn pauses_are_spread_and_the_receivers_own_time_counts_within_bounds() {
        let again = |after, lot| pause(POLICY.decide(1, PostResult::Status(503, after), lot));
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
        assert_eq!(again(Some(Duration::MAX), 0.5), POLICY.max_pause);
        let huge = RetryPolicy { max_tries: i32::MAX, ..POLICY };
        assert_eq!(
            huge.decide(i32::MAX - 1, PostResult::NoResponse, 0.5),
            DeliveryDecision::Retry(POLICY.max_pause)
        );
    }
}
