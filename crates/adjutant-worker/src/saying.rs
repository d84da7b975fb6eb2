//! What a model has said of an answer that is not stored yet, and what the database knows of it.

use std::time::{Duration, Instant};

/// An answer that takes less time than this is never drafted.
const FIRST_AFTER: Duration = Duration::from_secs(1);

/// A draft is not renewed more often than this.
const AGAIN_AFTER: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(crate) struct Saying {
    answer: i32,
    text: String,
    began_at: Option<Instant>,
    /// When the last draft was on its way to the database.
    drafted_at: Option<Instant>,
}

impl Saying {
    pub(crate) fn says(&mut self, answer: i32, text: &str) {
        self.answer = answer;
        self.began_at.get_or_insert_with(Instant::now);
        self.text.push_str(text);
    }

    /// Gives what was said.
    pub(crate) fn falls_silent(&mut self) -> String {
        self.began_at = None;
        std::mem::take(&mut self.text)
    }

    /// The answer and its text, if it is time for a draft of it.
    pub(crate) fn draft(&mut self, now: Instant) -> Option<(i32, String)> {
        let has_passed = |time: Duration, since: Instant| now.duration_since(since) >= time;
        // Also if nothing was said since: the last draft may not have been kept.
        let is_due = self.began_at.is_some_and(|began_at| has_passed(FIRST_AFTER, began_at))
            && self.drafted_at.is_none_or(|drafted_at| has_passed(AGAIN_AFTER, drafted_at));
        if !is_due || self.text.trim().is_empty() {
            return None;
        }
        self.drafted_at = Some(now);
        Some((self.answer, self.text.clone()))
    }

    /// Whether the database may have a draft that counts no more; says so once.
    pub(crate) fn drops_draft(&mut self) -> bool {
        self.began_at.is_none() && self.drafted_at.take().is_some()
    }

    /// Nothing more is said. Tells whether the database may have a draft.
    pub(crate) fn ends(&mut self) -> bool {
        self.falls_silent();
        self.drops_draft()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn began(saying: &Saying) -> Instant {
        saying.began_at.unwrap()
    }

    #[test]
    fn a_short_answer_is_never_drafted() {
        let mut saying = Saying::default();
        saying.says(1, "Quick");
        let began = began(&saying);
        assert_eq!(saying.draft(began + FIRST_AFTER / 2), None);
        assert_eq!(saying.falls_silent(), "Quick");
        assert_eq!(saying.draft(began + FIRST_AFTER * 2), None);
        assert!(!saying.drops_draft() && !saying.ends());
    }

    #[test]
    fn a_long_answer_is_drafted_now_and_then() {
        let mut saying = Saying::default();
        saying.says(3, "One");
        let first = began(&saying) + FIRST_AFTER;
        assert_eq!(saying.draft(first), Some((3, "One".to_owned())));
        saying.says(3, ", two");
        assert_eq!(saying.draft(first + AGAIN_AFTER / 2), None);
        assert_eq!(saying.draft(first + AGAIN_AFTER), Some((3, "One, two".to_owned())));
        assert!(!saying.drops_draft());
        saying.falls_silent();
        assert!(saying.drops_draft());
        assert!(!saying.ends(), "it is said once");
    }

    #[test]
    fn the_next_answer_has_its_own_time() {
        let mut saying = Saying::default();
        saying.says(1, "One");
        let first = began(&saying) + FIRST_AFTER;
        assert!(saying.draft(first).is_some());
        saying.falls_silent();
        saying.says(2, "Two");
        saying.began_at = Some(first + AGAIN_AFTER);
        assert_eq!(saying.draft(first + AGAIN_AFTER), None);
        assert_eq!(saying.draft(first + AGAIN_AFTER + FIRST_AFTER), Some((2, "Two".to_owned())));
        assert!(saying.ends());
    }

    #[test]
    fn blank_text_is_no_draft() {
        let mut saying = Saying::default();
        saying.says(1, " \n");
        let late = began(&saying) + FIRST_AFTER;
        assert_eq!(saying.draft(late), None);
    }
}
