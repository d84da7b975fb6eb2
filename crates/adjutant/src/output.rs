//! Standard output is for results; progress goes to standard error.

use std::io::Write;

use anyhow::Context;

/// Prints a line. Fails if standard output is closed.
pub fn print_line(line: &str) -> anyhow::Result<()> {
    writeln!(std::io::stdout(), "{line}").context("cannot write to standard output")
}
