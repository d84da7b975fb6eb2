//! Control characters as visible escapes.

use std::borrow::Cow;
use std::fmt::Write;

/// C0, DEL and C1, with which a terminal can be controlled, and the bidi controls, with which the
/// order of a line can be forged.
fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A text of several lines: line ends and tabs stay.
pub fn escape_text(text: &str) -> Cow<'_, str> {
    escape(
        text,
        |c, next| matches!(c, '\n' | '\t') || c == '\r' && next == Some('\n'),
        push_visible,
    )
}

/// A text that has to stay on one line.
pub fn escape_line(text: &str) -> Cow<'_, str> {
    escape(text, |_, _| false, push_visible)
}

/// JSON stays the same JSON. A carriage return can only be between its values, so it is left out.
pub fn escape_json(json: &str) -> Cow<'_, str> {
    escape(
        json,
        |c, _| matches!(c, '\n' | '\t'),
        |out, c| {
            if c != '\r' {
                push(out, format_args!("\\u{:04x}", u32::from(c)));
            }
        },
    )
}

fn escape(
    text: &str,
    is_kept: impl Fn(char, Option<char>) -> bool,
    push_escaped: impl Fn(&mut String, char),
) -> Cow<'_, str> {
    if !text.chars().any(is_control) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if is_control(c) && !is_kept(c, rest.peek().copied()) {
            push_escaped(&mut out, c);
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

fn push_visible(out: &mut String, c: char) {
    match (c, u32::from(c)) {
        ('\n', _) => out.push_str("\\n"),
        ('\r', _) => out.push_str("\\r"),
        ('\t', _) => out.push_str("\\t"),
        (_, code @ 0..=0xff) => push(out, format_args!("\\x{code:02x}")),
        (_, code) => push(out, format_args!("\\u{{{code:x}}}")),
    }
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = out.write_fmt(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_visible() {
        for (text, shown) in [
            ("\u{1b}[2J", "\\x1b[2J"),
            ("\u{7}\u{0}\u{7f}", "\\x07\\x00\\x7f"),
            ("\u{85}\u{9b}31m", "\\x85\\x9b31m"),
            ("\u{202e}gpj.exe", "\\u{202e}gpj.exe"),
            (
                "\u{61c}\u{200e}\u{200f}\u{202a}\u{2066}\u{2069}",
                "\\u{61c}\\u{200e}\\u{200f}\\u{202a}\\u{2066}\\u{2069}",
            ),
            ("over\rwritten", "over\\rwritten"),
        ] {
            assert_eq!(escape_text(text), shown);
            assert_eq!(escape_line(text), shown);
        }
    }

    #[test]
    fn line_ends_and_tabs_of_a_text_stay_and_those_of_a_line_do_not() {
        assert_eq!(escape_text("a\tb\nc\r\nd"), "a\tb\nc\r\nd");
        assert_eq!(escape_line("a\tb\nc\r\nd"), "a\\tb\\nc\\r\\nd");
    }

    #[test]
    fn ordinary_text_stays() {
        for text in ["", "plain", "Größe", "漢字", "👩\u{200d}🔬", "שלום", "\\x1b"] {
            assert!(matches!(escape_line(text), Cow::Borrowed(same) if same == text));
        }
    }

    #[test]
    fn json_stays_the_same_json() {
        let value = serde_json::json!({"label": "a\u{9b}b\u{202e}c\u{1b}d\u{7f}", "b": [1, "\n"]});
        for json in
            [value.to_string(), serde_json::to_string_pretty(&value).unwrap().replace('\n', "\r\n")]
        {
            let escaped = escape_json(&json);
            assert!(!escaped.chars().any(|c| is_control(c) && c != '\n'), "{escaped:?}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), value);
        }
    }
}
