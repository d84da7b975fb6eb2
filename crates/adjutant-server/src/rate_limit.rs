use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Beyond so many buckets, full ones are removed: a new one is full too.
const MAX_BUCKETS: usize = 10_000;

/// A token bucket per key: it holds one second's worth, and refills at this rate. Each process
/// counts by itself.
#[derive(Debug)]
pub(crate) struct RateLimiter<K> {
    per_second: f64,
    buckets: Mutex<HashMap<K, Bucket>>,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    /// The tokens at that time.
    tokens: f64,
    at: Instant,
}

impl<K: Eq + Hash> RateLimiter<K> {
    pub(crate) fn new(per_second: f64) -> Self {
        Self { per_second, buckets: Mutex::default() }
    }

    /// One second's worth, and at least one, so that a rate below one per second works.
    fn capacity(&self) -> f64 {
        self.per_second.max(1.0)
    }

    fn tokens(&self, bucket: &Bucket, now: Instant) -> f64 {
        let gained = now.saturating_duration_since(bucket.at).as_secs_f64() * self.per_second;
        (bucket.tokens + gained).min(self.capacity())
    }

    /// Whether `key` has a token; else how long until it has one.
    pub(crate) fn check(&self, key: &K) -> Result<(), Duration> {
        let buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let tokens =
            buckets.get(key).map_or(self.capacity(), |bucket| self.tokens(bucket, Instant::now()));
        self.require_token(tokens)
    }

    fn require_token(&self, tokens: f64) -> Result<(), Duration> {
        if tokens >= 1.0 {
            return Ok(());
        }
        let seconds = (1.0 - tokens) / self.per_second;
        Err(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::from_secs(3600)))
    }

    /// Takes a token of `key`, or returns how long until there is one.
    pub(crate) fn take(&self, key: K) -> Result<(), Duration> {
        self.update(key, |tokens| self.require_token(tokens))
    }

    /// Takes a token of `key` even if it has none: the bucket may go below zero, which concurrent
    /// requests have to make up for.
    pub(crate) fn charge(&self, key: K) {
        // This condition never fails.
        let _ = self.update(key, |_| Ok(()));
    }

    fn update(
        &self,
        key: K,
        condition: impl FnOnce(f64) -> Result<(), Duration>,
    ) -> Result<(), Duration> {
        let now = Instant::now();
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MAX_BUCKETS && !buckets.contains_key(&key) {
            buckets.retain(|_, bucket| self.tokens(bucket, now) < self.capacity());
        }
        let bucket = buckets.entry(key).or_insert(Bucket { tokens: self.capacity(), at: now });
        let tokens = self.tokens(bucket, now);
        condition(tokens)?;
        *bucket = Bucket { tokens: tokens - 1.0, at: now };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_bucket_holds_one_seconds_worth_and_refills_over_time() {
        let rate = RateLimiter::new(3.0);
        for _ in 0..3 {
            assert_eq!((rate.check(&"one"), rate.take("one")), (Ok(()), Ok(())));
        }
        let wait = rate.take("one").unwrap_err();
        assert!(rate.check(&"one").unwrap_err() <= wait, "a check takes no token");
        assert!(wait > Duration::from_millis(330) && wait < Duration::from_millis(340), "{wait:?}");
        assert_eq!(rate.take("another"), Ok(()), "each key has its own bucket");
        tokio::time::advance(wait + Duration::from_millis(1)).await;
        assert_eq!(rate.take("one"), Ok(()));
        assert!(rate.take("one").is_err());
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(
            (0..10).filter(|_| rate.take("one").is_ok()).count(),
            3,
            "a bucket never holds more than one second's worth"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_charge_below_zero_delays_the_next_tokens() {
        let rate = RateLimiter::new(10.0);
        for _ in 0..30 {
            rate.charge("one");
        }
        let wait = rate.check(&"one").unwrap_err();
        assert!(wait > Duration::from_secs(2) && wait < Duration::from_millis(2_200), "{wait:?}");
        tokio::time::advance(wait + Duration::from_millis(1)).await;
        assert_eq!(rate.check(&"one"), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_rate_below_one_per_second_allows_one_at_a_time() {
        let rate = RateLimiter::new(0.1);
        assert_eq!(rate.take(()), Ok(()));
        assert!(rate.take(()).unwrap_err() > Duration::from_millis(9_900));
        tokio::time::advance(Duration::from_millis(10_001)).await;
        assert_eq!(rate.take(()), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn only_full_buckets_are_removed() {
        let rate = RateLimiter::new(1.0);
        for key in 0..MAX_BUCKETS - 1 {
            rate.take(key).unwrap();
        }
        tokio::time::advance(Duration::from_secs(2)).await;
        rate.take(MAX_BUCKETS).unwrap();
        rate.take(MAX_BUCKETS + 1).unwrap();
        assert_eq!(rate.buckets.lock().unwrap().len(), 2);
        assert!(rate.take(MAX_BUCKETS).is_err());
    }
}
