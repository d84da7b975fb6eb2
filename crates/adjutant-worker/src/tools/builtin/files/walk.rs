use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::root::{Entry, Kind, Root};

/// The most entries that one call visits.
const MAX_VISITS: usize = 50_000;

/// A blocking thread cannot be stopped, so it ends well before the timeout of the call.
const MAX_TIME: Duration = Duration::from_secs(20);

/// Whether all entries were visited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coverage {
    All,
    Part,
}

/// Visits all entries below a folder in order, with paths relative to it. Links are visited, but
/// not followed. `.git` is skipped.
pub(super) fn walk(
    root: &Root,
    start: &Path,
    mut visit: impl FnMut(&Path, &Entry) -> ControlFlow<()>,
) -> Result<Coverage, String> {
    let started = Instant::now();
    let mut coverage = Coverage::All;
    let mut visits = 0;
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let (entries, more) = match root.entries(&start.join(&folder)) {
            Ok(entries) => entries,
            // A folder below was deleted meanwhile or is not readable. The start folder must be.
            Err(_) if visits > 0 => continue,
            Err(why) => return Err(why),
        };
        if more {
            coverage = Coverage::Part;
        }
        let mut inner = Vec::new();
        for entry in entries {
            visits += 1;
            if visits > MAX_VISITS || started.elapsed() > MAX_TIME {
                return Ok(Coverage::Part);
            }
            let path = folder.join(&entry.name);
            if visit(&path, &entry).is_break() {
                return Ok(Coverage::Part);
            }
            if entry.kind == Kind::Folder && entry.name != ".git" {
                inner.push(path);
            }
        }
        folders.extend(inner.into_iter().rev());
    }
    Ok(coverage)
}
