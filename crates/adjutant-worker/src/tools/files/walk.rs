use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::root::{Entry, Kind, Root};

/// What is looked at in one call at the most.
const MAX_VISITS: usize = 50_000;

/// A thread cannot be stopped from outside: it ends well before the call's time-out.
const MAX_TIME: Duration = Duration::from_secs(20);

/// Whether everything was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    All,
    Part,
}

/// Visits everything below a folder, in order, with its path from there. Links are visited, not followed; `.git` is left out.
pub(super) fn walk(
    root: &Root,
    start: &Path,
    mut visit: impl FnMut(&Path, &Entry) -> ControlFlow<()>,
) -> Result<Seen, String> {
    let began = Instant::now();
    let mut seen = Seen::All;
    let mut visits = 0;
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let (entries, more) = match root.entries(&start.join(&folder)) {
            Ok(entries) => entries,
            // It went meanwhile, or may not be read; the first one is what was asked for.
            Err(_) if visits > 0 => continue,
            Err(why) => return Err(why),
        };
        if more {
            seen = Seen::Part;
        }
        let mut inner = Vec::new();
        for entry in entries {
            visits += 1;
            if visits > MAX_VISITS || began.elapsed() > MAX_TIME {
                return Ok(Seen::Part);
            }
            let path = folder.join(&entry.name);
            if visit(&path, &entry).is_break() {
                return Ok(Seen::Part);
            }
            if entry.kind == Kind::Folder && entry.name != ".git" {
                inner.push(path);
            }
        }
        folders.extend(inner.into_iter().rev());
    }
    Ok(seen)
}
