//! Warnings and errors that repeat: one line a minute, with how often they came.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The same line is written once in this time.
const QUIET: Duration = Duration::from_secs(60);

/// More different lines than this are not compared.
const MOST: usize = 1000;

/// The tenant and the message of a line.
type Line = (String, String);

#[derive(Debug, Default)]
pub struct Repeats {
    seen: HashMap<Line, Seen>,
}

#[derive(Debug)]
struct Seen {
    since: Instant,
    /// How often it was left out since.
    left_out: u32,
}

impl Repeats {
    /// The message to write, with how often it was left out before; `None` if it is left out.
    pub fn admit(&mut self, tenant: &str, message: &str, now: Instant) -> Option<String> {
        let line = (tenant.to_owned(), message.to_owned());
        let mut before = 0;
        if let Some(seen) = self.seen.get_mut(&line) {
            if now.saturating_duration_since(seen.since) < QUIET {
                seen.left_out += 1;
                return None;
            }
            before = seen.left_out;
        } else if self.seen.len() >= MOST {
            self.seen.retain(|_, seen| now.saturating_duration_since(seen.since) < QUIET);
        }
        if self.seen.len() < MOST {
            self.seen.insert(line, Seen { since: now, left_out: 0 });
        }
        Some(match before {
            0 => message.to_owned(),
            before => format!("{message} (and {before} more times before)"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_written_once_a_minute_with_its_count() {
        let (mut repeats, start) = (Repeats::default(), Instant::now());
        let mut admit = |message: &str, after| {
            repeats.admit("acme", message, start + Duration::from_secs(after))
        };
        assert_eq!(admit("a", 0).as_deref(), Some("a"));
        assert_eq!(admit("a", 1), None);
        assert_eq!(admit("b", 1).as_deref(), Some("b"), "another message");
        assert_eq!(admit("a", 59), None);
        assert_eq!(admit("a", 60).as_deref(), Some("a (and 2 more times before)"));
        assert_eq!(admit("a", 61), None);
        assert_eq!(admit("a", 200).as_deref(), Some("a (and 1 more times before)"));
        assert_eq!(admit("a", 300).as_deref(), Some("a"));
        let of_another = repeats.admit("other", "a", start + Duration::from_secs(300));
        assert_eq!(of_another.as_deref(), Some("a"), "another tenant");
    }
}
