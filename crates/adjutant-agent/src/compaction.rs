//! Compaction: a conversation that nears the context window is summed up by its model. The summary
//! is stored as a turn, and replaces what came before it in all later requests.
//!
//! Whether to compact is decided from the stored turns, so that a task that is resumed makes the
//! same requests. Between two compactions the requests only grow at their end, so that the
//! provider's prompt cache stays valid.

use crate::context_window::{FittedResults, Fitting};
use crate::transcript::Transcript;
use crate::word_enum::word_enum;
use crate::{Conversation, StopReason, StoredTurn, TurnKind};

word_enum! {
    /// Whether a conversation that nears the context window is summed up by its model.
    #[derive(Default)]
    Compaction {
        #[default]
        On = "on",
        /// Old tool results are left out of the requests instead.
        Off = "off",
    }
}

impl StoredTurn {
    /// The text that replaces the conversation before this turn; none if the model gave none.
    pub(crate) fn compacted(&self) -> Option<String> {
        if self.turn.kind != TurnKind::Compaction || self.turn.answer.stop == StopReason::Refusal {
            return None;
        }
        self.turn.answer.text().map(|text| text.trim().to_owned())
    }
}

impl<'a> Conversation<'a> {
    /// Whether the model is asked for a summary of the conversation before the call of this kind.
    pub(crate) fn needs_compaction(&self, turns: &'a [StoredTurn], kind: TurnKind) -> bool {
        if !self.compacts(turns) {
            return false;
        }
        let transcript = Transcript::of(self, turns, kind);
        if !transcript.can_be_compacted() {
            return false;
        }
        let is_long = || {
            let window = self.window?;
            let opening = self.opening_bytes(&transcript);
            let fitted = FittedResults::new(Fitting::Append(window), opening, &transcript.turns);
            Some(fitted.size() > window.limit())
        };
        self.too_long.is_some() || is_long().unwrap_or(false)
    }

    /// How the next request is fitted into the window.
    pub(crate) fn fitting(&self, turns: &[StoredTurn], kind: TurnKind) -> Fitting {
        if kind == TurnKind::Compaction && self.too_long.is_some() {
            return Fitting::Halve;
        }
        match self.window {
            None => Fitting::Whole,
            Some(window) if self.compacts(turns) => Fitting::Append(window),
            Some(window) => Fitting::LeaveOut(window),
        }
    }

    /// A model that answered without a summary once is not asked again.
    fn compacts(&self, turns: &[StoredTurn]) -> bool {
        let failed = |stored: &StoredTurn| {
            stored.turn.kind == TurnKind::Compaction && stored.compacted().is_none()
        };
        self.compaction == Compaction::On && !turns.iter().any(failed)
    }
}

#[cfg(test)]
mod tests;
