//! The line that shows what a command does.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// On standard error, and only if it is a terminal.
pub fn spinner(message: &'static str) -> anyhow::Result<ProgressBar> {
    let bar = ProgressBar::new_spinner();
    bar.set_style(ProgressStyle::with_template("{spinner} {elapsed}  {wide_msg}")?);
    bar.set_message(message);
    if !bar.is_hidden() {
        bar.enable_steady_tick(Duration::from_millis(120));
    }
    Ok(bar)
}
