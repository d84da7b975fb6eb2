//! The report of `bench api`.

use std::time::Duration;

use serde::Serialize;

use super::super::report::{Quantiles, print, targets};

/// Calls of one kind, by all clients concurrently.
#[derive(Debug, Serialize)]
pub struct Rate {
    /// The median of the rounds.
    pub per_s: f64,
    pub time: Quantiles,
}

impl Rate {
    pub fn of(rounds: &[f64], times: Vec<Duration>) -> Self {
        let mut rounds = rounds.to_vec();
        rounds.sort_by(f64::total_cmp);
        let upper = rounds.len() / 2;
        let lower = rounds.len().saturating_sub(1) / 2;
        let at = |index: usize| rounds.get(index).copied().unwrap_or(f64::NAN);
        Self { per_s: f64::midpoint(at(lower), at(upper)), time: Quantiles::of(times) }
    }
}

#[derive(Debug, Serialize)]
pub struct Statuses {
    pub per_cpu_s: f64,
    pub per_s: f64,
    /// The CPU time of the server and of PostgreSQL.
    pub cpu_s: f64,
    pub time: Quantiles,
}

#[derive(Debug, Serialize)]
pub struct Waits {
    pub waits: usize,
    pub finishes_per_s: f64,
    /// The time from the start of the transaction that ends the task to the answer of the wait.
    pub wake: Quantiles,
    /// The queries of the server while no task ends.
    pub queries_per_s: f64,
    /// The peak memory of the server minus its memory before the waits.
    pub mb: f64,
    pub rss_before_mb: f64,
}

/// The keys of the JSON object. They are stable.
#[derive(Debug, Serialize)]
pub struct Report {
    pub spawn_vs_insert: f64,
    pub spawn_p99_vs_insert_p99: f64,
    pub status_per_cpu_s: f64,
    pub wait_wake_p99_ms: f64,
    pub wait_mb: f64,
    pub wait_queries_per_s: f64,
    pub insert: Rate,
    pub spawn: Rate,
    pub status: Statuses,
    pub wait: Waits,
    pub server_version: String,
    pub debug_build: bool,
}

impl Report {
    pub fn new(
        insert: Rate,
        spawn: Rate,
        status: Statuses,
        wait: Waits,
        server_version: String,
    ) -> Self {
        Self {
            spawn_vs_insert: spawn.per_s / insert.per_s,
            spawn_p99_vs_insert_p99: spawn.time.p99_ms / insert.time.p99_ms,
            status_per_cpu_s: status.per_cpu_s,
            wait_wake_p99_ms: wait.wake.p99_ms,
            wait_mb: wait.mb,
            wait_queries_per_s: wait.queries_per_s,
            insert,
            spawn,
            status,
            wait,
            server_version,
            debug_build: cfg!(debug_assertions),
        }
    }

    pub fn print(&self, json: bool) -> anyhow::Result<()> {
        print(self, || self.table(), json)
    }

    fn table(&self) -> String {
        let (status, wait) = (&self.status, &self.wait);
        let mut rows =
            vec![format!("{:<32} {:>10} {:>10} {:>10}", "32 clients", "per s", "p50 ms", "p99 ms")];
        for (name, per_s, time) in [
            ("insert (pgbench)", self.insert.per_s, self.insert.time),
            ("spawn", self.spawn.per_s, self.spawn.time),
            ("status", status.per_s, status.time),
        ] {
            rows.push(format!(
                "{name:<32} {per_s:>10.0} {:>10.2} {:>10.2}",
                time.p50_ms, time.p99_ms
            ));
        }
        rows.push(format!(
            "{:<32} {:>10.0} {:>10.2} {:>10.2}",
            format!("end to answer, {} waits", wait.waits),
            wait.finishes_per_s,
            wait.wake.p50_ms,
            wait.wake.p99_ms
        ));
        rows.push(String::new());
        rows.push(format!(
            "PostgreSQL {}; {:.1} CPU seconds for the status calls; {:.1} MB before the waits",
            self.server_version, status.cpu_s, wait.rss_before_mb
        ));
        rows.push(String::new());
        rows.push(targets(&[
            ("spawn_vs_insert", self.spawn_vs_insert, "at least 0.5"),
            ("spawn_p99_vs_insert_p99", self.spawn_p99_vs_insert_p99, "at most 10"),
            ("status_per_cpu_s", self.status_per_cpu_s, "at least 5000"),
            ("wait_wake_p99_ms", self.wait_wake_p99_ms, "at most 100"),
            ("wait_mb", self.wait_mb, "below 100"),
            ("wait_queries_per_s", self.wait_queries_per_s, "at most 1"),
        ]));
        rows.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(rounds: &[f64], ms: u64) -> Rate {
        Rate::of(rounds, vec![Duration::from_millis(ms)])
    }

    #[test]
    fn the_report_has_stable_keys_and_correct_ratios() {
        let time = Quantiles::of(vec![Duration::from_millis(40)]);
        let status = Statuses { per_cpu_s: 6000.0, per_s: 9000.0, cpu_s: 1.5, time };
        let wait = Waits {
            waits: 5000,
            finishes_per_s: 250.0,
            wake: time,
            queries_per_s: 0.8,
            mb: 60.0,
            rss_before_mb: 20.0,
        };
        let (insert, spawn) = (rate(&[100.0, 300.0, 200.0], 2), rate(&[100.0, 140.0], 8));
        let report = Report::new(insert, spawn, status, wait, "15".to_owned());
        let json = serde_json::to_value(&report).unwrap();
        for (key, figure) in [
            ("spawn_vs_insert", 0.6),
            ("spawn_p99_vs_insert_p99", 4.0),
            ("status_per_cpu_s", 6000.0),
            ("wait_wake_p99_ms", 40.0),
            ("wait_mb", 60.0),
            ("wait_queries_per_s", 0.8),
        ] {
            assert_eq!(json[key].as_f64(), Some(figure), "{key}");
            assert!(report.table().contains(key), "{key}");
        }
        assert_eq!(json["spawn"]["per_s"], 120.0);
    }
}
