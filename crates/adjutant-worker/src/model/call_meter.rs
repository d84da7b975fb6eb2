use std::sync::Mutex;

use super::partial_answer::PartialAnswer;
use super::price::TokenCounts;
use crate::lease_table::lock;

/// As `estimate_tokens` of `adjutant-agent` estimates, for text whose characters are not counted.
const BYTES_PER_TOKEN: usize = 4;

/// What a call has used so far. It outlives the call's future, which is dropped when the task is
/// cancelled.
#[derive(Debug, Default)]
pub struct CallMeter(Mutex<Progress>);

#[derive(Debug, Default, Clone, Copy)]
struct Progress {
    /// The server may have the request, and has not refused it.
    may_cost: bool,
    /// Estimated.
    prompt_tokens: i64,
    received_bytes: usize,
    /// What the server has reported so far.
    reported: Option<TokenCounts>,
}

impl CallMeter {
    /// The request with this prompt is about to be sent.
    pub(super) fn sending(&self, prompt_tokens: i64) {
        *lock(&self.0) = Progress { may_cost: true, prompt_tokens, ..Progress::default() };
    }

    /// The server was not reached, or answered with an error.
    pub(super) fn refused(&self) {
        lock(&self.0).may_cost = false;
    }

    pub(super) fn received(&self, answer: &PartialAnswer) {
        let mut progress = lock(&self.0);
        progress.received_bytes = answer.bytes();
        progress.reported = answer.counts;
    }

    /// The use of a call that broke off; `None` if it cannot have cost anything. An early report of
    /// the server counts only what it had produced by then.
    pub(super) fn used(&self) -> Option<TokenCounts> {
        let Progress { may_cost, prompt_tokens, received_bytes, reported } = *lock(&self.0);
        let reported = reported.unwrap_or_default();
        may_cost.then(|| TokenCounts {
            input: if reported.input > 0 { reported.input } else { prompt_tokens },
            output: reported.output.max(estimate(received_bytes)),
            ..reported
        })
    }
}

/// The use of a call that was answered, and whether a part of it is estimated. A server that
/// reports zero tokens of a prompt does not count them.
pub(super) fn complete(
    reported: Option<TokenCounts>,
    prompt_tokens: i64,
    received_bytes: usize,
) -> (TokenCounts, bool) {
    let mut counts = reported.unwrap_or_default();
    let lacks_input = counts.input <= 0;
    let lacks_output = counts.output <= 0 && received_bytes > 0;
    if lacks_input {
        counts.input = prompt_tokens;
    }
    if lacks_output {
        counts.output = estimate(received_bytes);
    }
    (counts, lacks_input || lacks_output)
}

fn estimate(bytes: usize) -> i64 {
    match bytes {
        0 => 0,
        bytes => i64::try_from(bytes / BYTES_PER_TOKEN).unwrap_or(i64::MAX).max(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(input: i64, output: i64) -> TokenCounts {
        TokenCounts { input, output, ..TokenCounts::default() }
    }

    #[test]
    fn what_the_server_does_not_report_is_estimated_and_said_to_be() {
        for (reported, used, is_estimated) in [
            (None, counts(100, 10), true),
            (Some(counts(90, 8)), counts(90, 8), false),
            (Some(counts(0, 8)), counts(100, 8), true),
            (Some(counts(90, 0)), counts(90, 10), true),
            (Some(counts(0, 0)), counts(100, 10), true),
        ] {
            assert_eq!(complete(reported, 100, 43), (used, is_estimated), "{reported:?}");
        }
        assert_eq!(complete(Some(counts(9, 0)), 100, 0), (counts(9, 0), false), "an empty answer");
    }

    #[test]
    fn a_call_that_broke_off_has_used_its_prompt_and_what_was_received() {
        let meter = CallMeter::default();
        assert_eq!(meter.used(), None);
        meter.sending(100);
        assert_eq!(meter.used(), Some(counts(100, 0)));
        let mut answer = PartialAnswer::default();
        answer.push_text("Eight characters, and more").unwrap();
        meter.received(&answer);
        assert_eq!(meter.used(), Some(counts(100, 6)));
        answer.counts = Some(counts(90, 1));
        meter.received(&answer);
        assert_eq!(meter.used(), Some(counts(90, 6)));
        meter.refused();
        assert_eq!(meter.used(), None, "a refused call costs nothing");
    }
}
