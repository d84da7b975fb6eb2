//! Standard output is for results; what is under way goes to standard error.

use std::io::Write;

use anyhow::Context;

/// Prints a line, and fails when nobody reads it any more.
pub fn print_line(line: &str) -> anyhow::Result<()> {
    writeln!(std::io::stdout(), "{line}").context("cannot write to standard output")
}
