use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::escape_line;

/// A line of progress, on standard error and only if that is a terminal.
pub struct Spinner(ProgressBar);

impl Spinner {
    pub fn start(message: &str) -> anyhow::Result<Self> {
        let bar = ProgressBar::new_spinner();
        bar.set_style(ProgressStyle::with_template("{spinner} {elapsed}  {wide_msg}")?);
        let spinner = Self(bar);
        spinner.show(message);
        if !spinner.is_hidden() {
            spinner.0.enable_steady_tick(Duration::from_millis(120));
        }
        Ok(spinner)
    }

    pub fn show(&self, message: &str) {
        self.0.set_message(escape_line(message).into_owned());
    }

    pub fn is_hidden(&self) -> bool {
        self.0.is_hidden()
    }

    pub fn clear(&self) {
        self.0.finish_and_clear();
    }
}
