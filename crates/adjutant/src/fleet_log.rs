//! The fleet's troubles in the log of a server: what `adjutant doctor` finds, one line when it
//! begins and one when it ends.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use adjutant_store::Store;

use crate::commands::doctor::{Finding, Verdict, fleet_findings};

/// A trouble that comes and goes is logged once in this time.
const QUIET: Duration = Duration::from_secs(300);

/// Logs changes until it is dropped. What is wrong with the database is logged by the calls that
/// meet it.
pub async fn run(store: Store, every: Duration) {
    let mut troubles = Troubles::default();
    loop {
        tokio::time::sleep(every).await;
        let Ok(findings) = fleet_findings(&store).await else { continue };
        for line in troubles.changes(&findings, Instant::now()) {
            match line {
                Line::Begins(check, found) => {
                    tracing::warn!(fleet.check = check, "fleet: {check}: {found}");
                }
                Line::Ends(check) => {
                    tracing::info!(fleet.check = check, "fleet: {check}: fine again")
                }
            }
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Line {
    Begins(&'static str, String),
    Ends(&'static str),
}

/// What was found the last time, and what was logged.
#[derive(Debug, Default)]
struct Troubles {
    found: BTreeMap<&'static str, String>,
    logged: BTreeMap<&'static str, Instant>,
    /// Those whose end is still to be logged.
    open: BTreeSet<&'static str>,
}

impl Troubles {
    /// A trouble begins when it is found twice in a row: queues that are short for a moment are
    /// every day's.
    fn changes(&mut self, findings: &[Finding], now: Instant) -> Vec<Line> {
        let mut found: BTreeMap<&'static str, String> = BTreeMap::new();
        for finding in findings.iter().filter(|finding| finding.verdict != Verdict::Ok) {
            let texts = found.entry(finding.check).or_default();
            if !texts.is_empty() {
                texts.push_str("; ");
            }
            texts.push_str(&finding.found);
        }
        let mut lines = Vec::new();
        for (check, text) in &found {
            let was_found = self.found.contains_key(check);
            let is_open = self.open.contains(check);
            let is_quiet = self.logged.get(check).is_some_and(|at| now - *at < QUIET);
            if was_found && !is_open && !is_quiet {
                lines.push(Line::Begins(check, text.clone()));
                self.logged.insert(check, now);
                self.open.insert(check);
            }
        }
        let ended: Vec<&'static str> =
            self.open.iter().copied().filter(|check| !found.contains_key(check)).collect();
        for check in ended {
            self.open.remove(check);
            lines.push(Line::Ends(check));
        }
        self.found = found;
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trouble_is_logged_when_it_begins_and_when_it_ends() {
        let mut troubles = Troubles::default();
        let start = Instant::now();
        let full = || [Finding::warning("cap", "full", "raise it")];
        let fine = || [Finding::ok("cap", "fine")];
        assert_eq!(troubles.changes(&full(), start), [], "perhaps for a moment");
        assert_eq!(troubles.changes(&full(), start), [Line::Begins("cap", "full".to_owned())]);
        assert_eq!(troubles.changes(&full(), start + QUIET), [], "still");
        assert_eq!(troubles.changes(&fine(), start), [Line::Ends("cap")]);
        troubles.changes(&full(), start);
        assert_eq!(troubles.changes(&full(), start + QUIET / 2), [], "it was logged a moment ago");
        let two = [Finding::warning("cap", "a", "b"), Finding::warning("cap", "c", "d")];
        assert_eq!(troubles.changes(&two, start + QUIET), [Line::Begins("cap", "a; c".to_owned())]);
    }
}
