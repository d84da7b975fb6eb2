//! The server's log, and the words for a failure that it explains.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::anyhow;

/// A longer log is put aside at the next start, so that two of these is all it can take.
const LONGEST: u64 = 16 << 20;
const TAIL_BYTES: u64 = 4096;
const TAIL_LINES: usize = 12;

/// How PostgreSQL says that the disk is full.
const FULL: [&str; 2] = ["No space left on device", "Check free disk space"];

pub struct Log {
    path: PathBuf,
    /// Stays readable when the file is removed with its directory.
    file: File,
    /// Where this run began: an older run's complaints explain nothing.
    begin: u64,
}

impl Log {
    pub fn open(path: PathBuf) -> io::Result<Self> {
        if fs::metadata(&path).is_ok_and(|found| found.len() > LONGEST) {
            fs::rename(&path, path.with_extension("log.old"))?;
        }
        let file = OpenOptions::new().create(true).append(true).read(true).mode(0o600).open(&path)?;
        let begin = file.metadata()?.len();
        Ok(Self { path, file, begin })
    }

    pub fn output(&self) -> io::Result<Stdio> {
        Ok(self.file.try_clone()?.into())
    }

    /// Why the server is gone, in one paragraph and the end of its log.
    pub fn explain(&self, what: &str, dir: &Path) -> anyhow::Error {
        let said = self.tail().unwrap_or_else(|error| format!("(it cannot be read: {error})"));
        explain(&format!("{what} The end of its log, {}", self.path.display()), &said, dir)
    }

    fn tail(&self) -> io::Result<String> {
        let end = self.file.metadata()?.len();
        let from = self.begin.max(end.saturating_sub(TAIL_BYTES));
        let mut bytes = vec![0; usize::try_from(end.saturating_sub(from)).unwrap_or(0)];
        self.file.read_exact_at(&mut bytes, from)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Puts what PostgreSQL said under our words, and says a full disk first when that is the reason.
pub fn explain(what: &str, said: &str, dir: &Path) -> anyhow::Error {
    // A log on the full disk cannot have said it.
    let full = if FULL.iter().any(|words| said.contains(words)) || is_full(dir) {
        format!(
            "no space is left for the database in {}. Nothing was lost: make room there, or choose another directory \
             with --data-dir, and start again. ",
            dir.display()
        )
    } else {
        String::new()
    };
    let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    let tail = &lines[lines.len().saturating_sub(TAIL_LINES)..];
    anyhow!("{full}{what}:\n  {}", tail.join("\n  "))
}

fn is_full(dir: &Path) -> bool {
    let written = tempfile::tempfile_in(dir).and_then(|mut probe| probe.write_all(&[1; 16 << 10]));
    written.is_err_and(|error| error.kind() == io::ErrorKind::StorageFull)
}
