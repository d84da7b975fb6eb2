//! Truncation of long results in answers to clients. The whole text is always stored.

use std::borrow::Cow;

use crate::{Refusal, prompts};

/// The length of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    Chars(usize),
    Bytes(usize),
}

impl Length {
    /// The longest prefix of `text` within this length. No character is split.
    pub fn prefix_of(self, text: &str) -> &str {
        let end = match self {
            Self::Chars(chars) => text.char_indices().nth(chars).map_or(text.len(), |(end, _)| end),
            Self::Bytes(bytes) => text.floor_char_boundary(bytes),
        };
        &text[..end]
    }

    fn holds(self, text: &str) -> bool {
        self.prefix_of(text).len() == text.len()
    }
}

/// How a dialect truncates long results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Truncation {
    /// A text up to this length is not truncated.
    pub max: Length,
    /// The length that is kept of a longer text, before the notice.
    pub kept: Length,
    pub notice: &'static str,
}

/// Of the dialect `spec`: texts of more than 1000 estimated tokens, which is from 4004 characters
/// on.
pub const SPEC_TRUNCATION: Truncation = Truncation {
    max: Length::Chars(4_003),
    kept: Length::Chars(4_000),
    notice: prompts::TRUNCATED,
};

/// A result in an answer, truncated if it was too long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TruncatedText<'a> {
    pub text: Cow<'a, str>,
    pub truncated: bool,
    /// The length of the whole text.
    pub result_chars: usize,
}

impl Truncation {
    /// Truncates a text that is too long.
    pub fn apply<'a>(&self, text: &'a str) -> TruncatedText<'a> {
        let truncated = !self.max.holds(text);
        let shown = if truncated {
            Cow::Owned(format!("{}{}", self.kept.prefix_of(text), self.notice))
        } else {
            Cow::Borrowed(text)
        };
        TruncatedText { text: shown, truncated, result_chars: text.chars().count() }
    }
}

/// The default number of characters per page of a result.
pub const DEFAULT_PAGE_CHARS: i64 = 4_000;
/// The most characters per page of a result.
pub const MAX_PAGE_CHARS: i64 = 20_000;

/// A page of a result. The pages that follow `next_offset` make up the whole text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page<'a> {
    pub offset: usize,
    pub text: &'a str,
    /// None on the last page.
    pub next_offset: Option<usize>,
    pub result_chars: usize,
}

impl<'a> Page<'a> {
    /// The page of `text` from `offset` characters; empty beyond the end.
    pub fn of(text: &'a str, offset: Option<i64>, limit: Option<i64>) -> Result<Self, Refusal> {
        let offset = usize::try_from(offset.unwrap_or(0))
            .map_err(|_| Refusal::invalid("offset", "must not be negative"))?;
        let limit = usize::try_from(limit.unwrap_or(DEFAULT_PAGE_CHARS).min(MAX_PAGE_CHARS))
            .ok()
            .filter(|limit| *limit > 0)
            .ok_or_else(|| Refusal::invalid("limit", "must be at least 1"))?;
        let rest = &text[Length::Chars(offset).prefix_of(text).len()..];
        let page = Length::Chars(limit).prefix_of(rest);
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
                SPEC_TRUNCATION.apply(&whole),
                TruncatedText {
                    text: whole.as_str().into(),
                    truncated: false,
                    result_chars: 4_003
                }
            );
            let cut =
                letter.repeat(4_000) + "\n[truncated — full response exceeded 1000 token limit]";
            assert_eq!(
                SPEC_TRUNCATION.apply(&letter.repeat(4_004)),
                TruncatedText { text: cut.into(), truncated: true, result_chars: 4_004 }
            );
        }
        assert_eq!(SPEC_TRUNCATION.apply("").text, "");
    }

    #[test]
    fn a_truncation_in_bytes_never_splits_a_character() {
        let truncation =
            Truncation { max: Length::Bytes(5), kept: Length::Bytes(5), notice: "…" };
        assert_eq!(truncation.apply("12345").text, "12345");
        assert_eq!(truncation.apply("123456").text, "12345…");
        assert_eq!(truncation.apply("1234é").text, "1234…");
        assert_eq!(truncation.apply("ééé").text, "éé…");
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
    fn a_page_has_4000_characters_by_default_and_at_most_20000() {
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
        fn a_prefix_is_as_long_as_the_limit_allows(text in ".{0,40}", bytes in 0..60_usize) {
            let start = Length::Bytes(bytes).prefix_of(&text);
            prop_assert!(start.len() <= bytes && text.starts_with(start));
            if let Some(next) = text[start.len()..].chars().next() {
                prop_assert!(start.len() + next.len_utf8() > bytes);
            }
        }
    }
}
