//! Whether calls of a model fail at the moment, in this process: for logs that name a failure once,
//! and for guesses about its cause.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::lease_table::lock;

#[derive(Debug, Default)]
pub(crate) struct Trouble(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    is_logged: bool,
    answered_at: Option<Instant>,
}

impl Trouble {
    /// Remembers a failure. True for the first one since an answer.
    pub(crate) fn began(&self) -> bool {
        self.with(|state| !std::mem::replace(&mut state.is_logged, true))
    }

    /// Remembers an answer. True for the first one since a failure.
    pub(crate) fn ended(&self) -> bool {
        self.with(|state| {
            state.answered_at = Some(Instant::now());
            std::mem::take(&mut state.is_logged)
        })
    }

    /// Whether there was an answer in the last time of this length.
    pub(crate) fn answered_within(&self, time: Duration) -> bool {
        self.with(|state| state.answered_at.is_some_and(|at| at.elapsed() < time))
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut lock(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_and_its_end_are_each_named_once() {
        let trouble = Trouble::default();
        assert!(!trouble.ended() && trouble.answered_within(Duration::from_secs(60)));
        assert!(trouble.began() && !trouble.began() && !trouble.began());
        assert!(trouble.ended() && !trouble.ended());
        assert!(trouble.began());
    }
}
