//! Everything that commands print. Standard output is for results; progress goes to standard error.
//!
//! What users, models and servers wrote is escaped here, so that it cannot control the terminal. A
//! test of the repository refuses other ways to print.

mod escape;
mod screen;
mod spinner;

use std::fmt;
use std::io::{IsTerminal, Write};

use anyhow::Context;

pub use escape::{escape_json, escape_line, escape_text};
pub use screen::AlternateScreen;
pub use spinner::Spinner;

/// Text for people whose control characters are escaped. Only tables have colors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shown(String);

impl Shown {
    /// A table whose cells are escaped and then colored.
    pub fn of_escaped(table: String) -> Self {
        Self(table)
    }

    /// This text and, in the lines below, another one.
    pub fn above(self, below: impl Into<Self>) -> Self {
        Self(format!("{}\n{}", self.0, below.into().0))
    }

    pub fn first_lines(&self, most: usize) -> Self {
        Self(self.0.lines().take(most).collect::<Vec<_>>().join("\n"))
    }
}

impl From<&str> for Shown {
    fn from(text: &str) -> Self {
        Self(escape_text(text).into_owned())
    }
}

impl From<&String> for Shown {
    fn from(text: &String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<String> for Shown {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl std::ops::Deref for Shown {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Prints a text for people. Fails if standard output is closed.
pub fn print_line(text: impl Into<Shown>) -> anyhow::Result<()> {
    write_line(&text.into().0)
}

/// Prints JSON: unchanged for a program, and without control characters on a terminal.
pub fn print_json(json: &str) -> anyhow::Result<()> {
    if stdout_is_terminal() { write_line(&escape_json(json)) } else { write_line(json) }
}

/// Prints a text that someone else wrote and that is the result of a command: unchanged into a file
/// or a pipe, and escaped on a terminal.
pub fn print_content(content: &str) -> anyhow::Result<()> {
    if stdout_is_terminal() { print_line(content) } else { write_line(content) }
}

/// Prints a line to standard error, escaped: what is not the result of a command.
macro_rules! note {
    ($($text:tt)+) => { $crate::output::print_note(&format!($($text)+)) };
}
pub(crate) use note;

/// See [`note`]. A closed standard error is no reason to fail.
pub fn print_note(text: &str) {
    write_log(&format!("{}\n", escape_text(text)));
}

/// Asks a question on standard error.
pub fn print_question(text: &str) {
    write_log(&escape_text(text));
}

/// Writes whole lines that are escaped already to standard error.
pub fn write_log(lines: &str) {
    let mut stderr = std::io::stderr().lock();
    // There is no other place to report it.
    let _ = stderr.write_all(lines.as_bytes()).and_then(|()| stderr.flush());
}

pub fn stdout_is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

pub fn stderr_is_terminal() -> bool {
    std::io::stderr().is_terminal()
}

/// The rows and columns of the terminal that is standard output.
pub fn terminal_size() -> (u16, u16) {
    console::Term::stdout().size()
}

fn write_line(line: &str) -> anyhow::Result<()> {
    writeln!(std::io::stdout(), "{line}").context("cannot write to standard output")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_escaped_and_a_table_is_not_escaped_again() {
        let shown = Shown::from("a\u{1b}[2Jb").above(Shown::of_escaped("\u{1b}[1mT".to_owned()));
        assert_eq!(&*shown, "a\\x1b[2Jb\n\u{1b}[1mT");
        assert_eq!(&*shown.first_lines(1), "a\\x1b[2Jb");
    }
}
