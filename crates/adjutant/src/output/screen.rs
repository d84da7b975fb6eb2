use std::io::Write;

use anyhow::Context;

use super::Shown;

/// The terminal's alternate screen; the previous content is restored on drop.
pub struct AlternateScreen;

impl AlternateScreen {
    pub fn open() -> anyhow::Result<Self> {
        write("\u{1b}[?1049h\u{1b}[?25l").context("cannot write to the terminal")?;
        Ok(Self)
    }

    /// Overwrites line by line: clearing the screen first would flicker.
    pub fn show(&self, text: &Shown) -> anyhow::Result<()> {
        let lines: String = text.lines().map(|line| format!("{line}\u{1b}[K\r\n")).collect();
        write(&format!("\u{1b}[H{}\u{1b}[J", lines.trim_end_matches("\r\n")))
            .context("cannot write to the terminal")
    }
}

impl Drop for AlternateScreen {
    fn drop(&mut self) {
        // Standard output may be closed by now.
        let _ = write("\u{1b}[?25h\u{1b}[?1049l");
    }
}

fn write(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}
