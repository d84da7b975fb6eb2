//! The server's log, and error messages that quote it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::anyhow;

/// A longer log is rotated at the next start, so that the logs take at most twice this size.
const MAX_BYTES: u64 = 16 << 20;
const TAIL_BYTES: u64 = 4096;
const TAIL_LINES: usize = 12;

/// PostgreSQL's messages for a full disk.
const DISK_FULL: [&str; 2] = ["No space left on device", "Check free disk space"];

pub struct Log {
    path: PathBuf,
    /// Stays readable after the file has been removed with its directory.
    file: File,
    /// The offset at which this run started.
    start: u64,
}

impl Log {
    pub fn open(path: PathBuf) -> io::Result<Self> {
        if fs::metadata(&path).is_ok_and(|found| found.len() > MAX_BYTES) {
            fs::rename(&path, path.with_extension("log.old"))?;
        }
        let file =
            OpenOptions::new().create(true).append(true).read(true).mode(0o600).open(&path)?;
        let start = file.metadata()?.len();
        Ok(Self { path, file, start })
    }

    pub fn handle(&self) -> io::Result<Stdio> {
        Ok(self.file.try_clone()?.into())
    }

    /// An error that quotes the end of the log.
    pub fn error(&self, what: &str, dir: &Path) -> anyhow::Error {
        let output = self.tail().unwrap_or_else(|error| format!("(unreadable: {error})"));
        quote(&format!("{what} The end of its log, {}", self.path.display()), &output, dir)
    }

    fn tail(&self) -> io::Result<String> {
        let end = self.file.metadata()?.len();
        let from = self.start.max(end.saturating_sub(TAIL_BYTES));
        let mut bytes = vec![0; usize::try_from(end.saturating_sub(from)).unwrap_or(0)];
        self.file.read_exact_at(&mut bytes, from)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Builds an error that quotes PostgreSQL's output, and names a full disk first if that is the
/// cause.
pub fn quote(what: &str, output: &str, dir: &Path) -> anyhow::Error {
    // If the log is on the full disk, it does not contain the message.
    let full = if DISK_FULL.iter().any(|words| output.contains(words)) || is_full(dir) {
        format!(
            "the disk of {} is full. No data was lost: free some space, or choose another directory with \
             --data-dir, and start again. ",
            dir.display()
        )
    } else {
        String::new()
    };
    let lines: Vec<&str> = output.lines().filter(|line| !line.trim().is_empty()).collect();
    let tail = &lines[lines.len().saturating_sub(TAIL_LINES)..];
    anyhow!("{full}{what}:\n  {}", tail.join("\n  "))
}

fn is_full(dir: &Path) -> bool {
    let written = tempfile::tempfile_in(dir).and_then(|mut probe| probe.write_all(&[1; 16 << 10]));
    written.is_err_and(|error| error.kind() == io::ErrorKind::StorageFull)
}
