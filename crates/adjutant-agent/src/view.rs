//! What a reader is shown of a result. The whole text is always stored; only its view is cut.

use std::borrow::Cow;

use crate::{Refusal, prompts};

/// How long a text may be, or how much of it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    Chars(usize),
    Bytes(usize),
}

impl Length {
    /// The longest start of `text` that is no longer than this and ends between two characters.
    pub fn start_of(self, text: &str) -> &str {
        let end = match self {
            Self::Chars(chars) => text.char_indices().nth(chars).map_or(text.len(), |(end, _)| end),
            Self::Bytes(bytes) => text.floor_char_boundary(bytes),
        };
        &text[..end]
    }

    fn holds(self, text: &str) -> bool {
        self.start_of(text).len() == text.len()
    }
}

/// How a dialect cuts what is too long for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    /// What is no longer than this is shown whole.
    pub longest: Length,
    /// Of anything longer, this much is shown, and the notice after it.
    pub kept: Length,
    pub notice: &'static str,
}

/// Over 1000 tokens, as the estimate counts them: from 4004 characters on.
pub const SPEC_VIEW: View =
    View { longest: Length::Chars(4_003), kept: Length::Chars(4_000), notice: prompts::TRUNCATED };

/// A result as one dialect shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown<'a> {
    pub text: Cow<'a, str>,
    pub truncated: bool,
    /// Of the whole text.
    pub result_chars: usize,
}

impl View {
    pub fn of<'a>(&self, text: &'a str) -> Shown<'a> {
        let truncated = !self.longest.holds(text);
        let shown = if truncated {
            Cow::Owned(format!("{}{}", self.kept.start_of(text), self.notice))
        } else {
            Cow::Borrowed(text)
        };
        Shown { text: shown, truncated, result_chars: text.chars().count() }
    }
}

/// Characters of a page if the reader asks for no other number.
pub const DEFAULT_PAGE_CHARS: i64 = 4_000;
/// A reader who asks for more gets this many, and the next offset.
pub const MAX_PAGE_CHARS: i64 = 20_000;

/// A part of a result; pages that follow each other's `next_offset` give all of it, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page<'a> {
    pub offset: usize,
    pub text: &'a str,
    /// None at the end.
    pub next_offset: Option<usize>,
    pub result_chars: usize,
}

impl<'a> Page<'a> {
    /// The page of `text` that begins after `offset` characters; beyond the end it is empty.
    pub fn of(text: &'a str, offset: Option<i64>, limit: Option<i64>) -> Result<Self, Refusal> {
        let offset = usize::try_from(offset.unwrap_or(0))
            .map_err(|_| Refusal::invalid("offset", "must not be negative"))?;
        let limit = usize::try_from(limit.unwrap_or(DEFAULT_PAGE_CHARS).min(MAX_PAGE_CHARS))
            .ok()
            .filter(|limit| *limit > 0)
            .ok_or_else(|| Refusal::invalid("limit", "must be at least 1"))?;
        let rest = &text[Length::Chars(offset).start_of(text).len()..];
        let page = Length::Chars(limit).start_of(rest);
        let next_offset = (page.len() < rest.len()).then(|| offset + limit);
        Ok(Self { offset, text: page, next_offset, result_chars: text.chars().count() })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_result_is_cut_from_4004_characters_on() {
        for letter in ["x", "é", "🦀"] {
            let whole = letter.repeat(4_003);
            assert_eq!(
                SPEC_VIEW.of(&whole),
                Shown { text: whole.as_str().into(), truncated: false, result_chars: 4_003 }
            );
            let cut =
                letter.repeat(4_000) + "\n[truncated — full response exceeded 1000 token limit]";
            assert_eq!(
                SPEC_VIEW.of(&letter.repeat(4_004)),
                Shown { text: cut.into(), truncated: true, result_chars: 4_004 }
            );
        }
        assert_eq!(SPEC_VIEW.of("").text, "");
    }

    #[test]
    fn a_view_in_bytes_never_splits_a_character() {
        let view = View { longest: Length::Bytes(5), kept: Length::Bytes(5), notice: "…" };
        assert_eq!(view.of("12345").text, "12345");
        assert_eq!(view.of("123456").text, "12345…");
        assert_eq!(view.of("1234é").text, "1234…");
        assert_eq!(view.of("ééé").text, "éé…");
    }

    #[test]
    fn a_page_says_where_the_next_one_begins() {
        let page = |offset, limit| {
            Page::of("aéb🦀c", offset, limit)
                .map(|page| (page.text, page.next_offset, page.result_chars))
        };
        assert_eq!(page(None, None), Ok(("aéb🦀c", None, 5)));
        assert_eq!(page(Some(0), Some(2)), Ok(("aé", Some(2), 5)));
        assert_eq!(page(Some(2), Some(2)), Ok(("b🦀", Some(4), 5)));
        assert_eq!(page(Some(4), Some(2)), Ok(("c", None, 5)));
        assert_eq!(page(Some(3), Some(2)), Ok(("🦀c", None, 5)), "the last page may be full");
        assert_eq!(page(Some(5), Some(2)), Ok(("", None, 5)));
        assert_eq!(page(Some(i64::MAX), Some(2)), Ok(("", None, 5)));
        assert_eq!(page(Some(-1), None).unwrap_err().message, "offset: must not be negative");
        assert_eq!(page(None, Some(0)).unwrap_err().message, "limit: must be at least 1");
        assert_eq!(page(None, Some(i64::MIN)).unwrap_err().message, "limit: must be at least 1");
    }

    #[test]
    fn a_page_has_4000_characters_unless_told_and_20000_at_most() {
        let text = "é".repeat(50_000);
        for (limit, chars) in [(None, 4_000), (Some(20_000), 20_000), (Some(i64::MAX), 20_000)] {
            let page = Page::of(&text, None, limit).unwrap();
            assert_eq!((page.text.chars().count(), page.next_offset), (chars, Some(chars)));
        }
    }

    proptest! {
        #[test]
        fn pages_that_follow_each_other_give_the_text_once(text in ".{0,60}", limit in 1..20_i64) {
            let mut read = String::new();
            let mut offset = Some(0);
            while let Some(from) = offset {
                let page = Page::of(&text, Some(i64::try_from(from).unwrap()), Some(limit)).unwrap();
                read.push_str(page.text);
                offset = page.next_offset;
            }
            prop_assert_eq!(read, text);
        }

        #[test]
        fn a_kept_start_is_as_long_as_it_may_be(text in ".{0,40}", bytes in 0..60_usize) {
            let start = Length::Bytes(bytes).start_of(&text);
            prop_assert!(start.len() <= bytes && text.starts_with(start));
            if let Some(next) = text[start.len()..].chars().next() {
                prop_assert!(start.len() + next.len_utf8() > bytes);
            }
        }
    }
}
