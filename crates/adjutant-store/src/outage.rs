//! An outage of the database is logged once when it begins and once when it ends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;

use crate::Result;

/// Whether a database answers the calls of this process.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last_answer: Option<Instant>,
    began: Option<Instant>,
}

/// What a call has changed.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    Began,
    /// An outage ended that began at this time.
    Ended(Instant),
}

impl Outage {
    /// The one of a database, which all stores of this process share.
    pub(crate) fn of(url: &str) -> Arc<Self> {
        static KNOWN: Mutex<Option<HashMap<String, Weak<Outage>>>> = Mutex::new(None);
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get_or_insert_default();
        known.retain(|_, outage| outage.strong_count() > 0);
        if let Some(outage) = known.get(url).and_then(Weak::upgrade) {
            return outage;
        }
        let outage = Arc::new(Self::default());
        known.insert(url.to_owned(), Arc::downgrade(&outage));
        outage
    }

    /// Records the answer to a call that was made at `called_at`.
    pub(crate) fn record<T>(&self, called_at: Instant, answer: &Result<T>) {
        let error = answer.as_ref().err().filter(|error| error.is_outage());
        match (self.change(called_at, Instant::now(), error.is_none()), error) {
            (Some(Change::Began), Some(error)) => tracing::warn!("{error}"),
            (Some(Change::Ended(began)), _) => {
                let duration = began.elapsed();
                tracing::info!(
                    duration_ms = duration.as_secs_f64() * 1e3,
                    "the database is available again, after {:.1} s",
                    duration.as_secs_f64()
                );
            }
            (Some(Change::Began), None) | (None, _) => {}
        }
    }

    fn change(&self, called_at: Instant, now: Instant, is_answered: bool) -> Option<Change> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if is_answered {
            state.last_answer = Some(now);
            return state.began.take().map(Change::Ended);
        }
        // Another call was answered meanwhile, so only one connection is broken or slow.
        if state.began.is_some() || state.last_answer.is_some_and(|answer| answer > called_at) {
            return None;
        }
        state.began = Some(called_at);
        Some(Change::Began)
    }
}

/// Logs at WARN that a call of the store failed. During an outage, which is logged once for all
/// calls, it is DEBUG.
#[macro_export]
macro_rules! warn_unless_outage {
    ($error:expr, $($event:tt)+) => {
        if $error.is_outage() {
            tracing::debug!($($event)+)
        } else {
            tracing::warn!($($event)+)
        }
    };
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_outage_begins_once_and_ends_once() {
        let (outage, start) = (Outage::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(outage.change(at(0), at(1), true), None);
        assert_eq!(outage.change(at(0), at(9), false), None, "another call was answered");
        assert_eq!(outage.change(at(10), at(11), false), Some(Change::Began));
        assert_eq!(outage.change(at(12), at(13), false), None);
        assert_eq!(outage.change(at(14), at(15), true), Some(Change::Ended(at(10))));
        assert_eq!(outage.change(at(15), at(16), true), None);
    }

    #[test]
    fn stores_of_one_database_share_their_outage() {
        let one = Outage::of("postgres://one");
        assert!(Arc::ptr_eq(&one, &Outage::of("postgres://one")));
        assert!(!Arc::ptr_eq(&one, &Outage::of("postgres://other")));
    }
}
