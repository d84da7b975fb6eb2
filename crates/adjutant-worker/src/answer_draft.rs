//! The text of an answer that is not stored yet, and whether the database has a draft of it.

use std::time::{Duration, Instant};

/// An answer that takes less time than this is never drafted.
const FIRST_AFTER: Duration = Duration::from_secs(1);

/// The minimum time between two drafts of one answer.
const AGAIN_AFTER: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(crate) struct AnswerDraft {
    /// The number of the answer in its task.
    answer: i32,
    text: String,
    started_at: Option<Instant>,
    /// When the last draft was sent to the database.
    drafted_at: Option<Instant>,
}

impl AnswerDraft {
    pub(crate) fn append(&mut self, answer: i32, text: &str) {
        self.answer = answer;
        self.started_at.get_or_insert_with(Instant::now);
        self.text.push_str(text);
    }

    /// Returns the text and starts over: the answer is stored, or does not count.
    pub(crate) fn clear(&mut self) -> String {
        self.started_at = None;
        std::mem::take(&mut self.text)
    }

    /// The number of the answer and its text, if a draft of it is due.
    pub(crate) fn due(&mut self, now: Instant) -> Option<(i32, String)> {
        let has_passed = |time: Duration, since: Instant| now.duration_since(since) >= time;
        // Even without new text: storing the last draft may have failed.
        let is_due = self.started_at.is_some_and(|started_at| has_passed(FIRST_AFTER, started_at))
            && self.drafted_at.is_none_or(|drafted_at| has_passed(AGAIN_AFTER, drafted_at));
        if !is_due || self.text.trim().is_empty() {
            return None;
        }
        self.drafted_at = Some(now);
        Some((self.answer, self.text.clone()))
    }

    /// Whether the database may have a draft that is obsolete. True once per draft.
    pub(crate) fn take_obsolete(&mut self) -> bool {
        self.started_at.is_none() && self.drafted_at.take().is_some()
    }

    /// Ends the draft with its attempt. Whether the database may have a draft that is obsolete.
    pub(crate) fn finish(&mut self) -> bool {
        self.clear();
        self.take_obsolete()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(draft: &AnswerDraft) -> Instant {
        draft.started_at.unwrap()
    }

    #[test]
    fn a_short_answer_is_never_drafted() {
        let mut draft = AnswerDraft::default();
        draft.append(1, "Quick");
        let started = started(&draft);
        assert_eq!(draft.due(started + FIRST_AFTER / 2), None);
        assert_eq!(draft.clear(), "Quick");
        assert_eq!(draft.due(started + FIRST_AFTER * 2), None);
        assert!(!draft.take_obsolete() && !draft.finish());
    }

    #[test]
    fn a_long_answer_is_drafted_repeatedly() {
        let mut draft = AnswerDraft::default();
        draft.append(3, "One");
        let first = started(&draft) + FIRST_AFTER;
        assert_eq!(draft.due(first), Some((3, "One".to_owned())));
        draft.append(3, ", two");
        assert_eq!(draft.due(first + AGAIN_AFTER / 2), None);
        assert_eq!(draft.due(first + AGAIN_AFTER), Some((3, "One, two".to_owned())));
        assert!(!draft.take_obsolete());
        draft.clear();
        assert!(draft.take_obsolete());
        assert!(!draft.finish(), "a draft is reported as obsolete once");
    }

    #[test]
    fn the_next_answer_starts_a_new_time() {
        let mut draft = AnswerDraft::default();
        draft.append(1, "One");
        let first = started(&draft) + FIRST_AFTER;
        assert!(draft.due(first).is_some());
        draft.clear();
        draft.append(2, "Two");
        draft.started_at = Some(first + AGAIN_AFTER);
        assert_eq!(draft.due(first + AGAIN_AFTER), None);
        assert_eq!(draft.due(first + AGAIN_AFTER + FIRST_AFTER), Some((2, "Two".to_owned())));
        assert!(draft.finish());
    }

    #[test]
    fn blank_text_is_not_drafted() {
        let mut draft = AnswerDraft::default();
        draft.append(1, " \n");
        let late = started(&draft) + FIRST_AFTER;
        assert_eq!(draft.due(late), None);
    }
}
