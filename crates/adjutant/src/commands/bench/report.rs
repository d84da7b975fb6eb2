//! The report of `bench queue`, and what all reports share.

use std::time::Duration;

use serde::Serialize;

use crate::output::{note, print_json, print_line};

#[derive(Debug, Clone, Copy, Serialize)]
pub struct Quantiles {
    pub p50_ms: f64,
    pub p95_ms: f64,
    pub p99_ms: f64,
}

impl Quantiles {
    pub fn of(mut times: Vec<Duration>) -> Self {
        times.sort();
        let at = |share: usize| {
            let index = (times.len() * share / 100).min(times.len().saturating_sub(1));
            times.get(index).map_or(f64::NAN, |time| time.as_secs_f64() * 1000.0)
        };
        Self { p50_ms: at(50), p95_ms: at(95), p99_ms: at(99) }
    }
}

/// Prints a report as one JSON object or as a table.
pub fn print(
    report: &impl Serialize,
    table: impl FnOnce() -> String,
    json: bool,
) -> anyhow::Result<()> {
    if json {
        return print_json(&serde_json::to_string(report)?);
    }
    if cfg!(debug_assertions) {
        note!(
            "adjutant: this is a debug build, so the figures are too low; use `cargo run --release`"
        );
    }
    print_line(table())
}

/// A table of figures and their targets.
pub fn targets(rows: &[(&str, f64, &str)]) -> String {
    let row = |(name, figure, target): &(&str, f64, &str)| {
        format!("{name:<28} {figure:>10.3}   {target}")
    };
    rows.iter().map(row).collect::<Vec<_>>().join("\n")
}

/// The baselines, measured with plain PostgreSQL.
#[derive(Debug, Serialize)]
pub struct Limits {
    pub naive_tasks_per_s: f64,
    pub batch_tasks_per_s: f64,
    pub bare_start: Quantiles,
}

/// The figures of Adjutant with a history of this length.
#[derive(Debug, Serialize)]
pub struct Figures {
    pub history_tasks: i64,
    pub whole_life_4_workers_per_s: f64,
    /// A quick run measures these only without history.
    #[serde(flatten)]
    pub full: Option<FullFigures>,
}

#[derive(Debug, Serialize)]
pub struct FullFigures {
    pub spawn_single_per_s: f64,
    pub spawn_bulk_per_s: f64,
    pub whole_life_1_worker_per_s: f64,
    pub start: Quantiles,
    pub efficiency_cap50_50ms: f64,
    pub idle_queries_per_s: f64,
}

/// The keys of the JSON object. They are stable.
#[derive(Debug, Serialize)]
pub struct Report {
    pub whole_life_vs_naive_limit: f64,
    pub whole_life_vs_batch_limit: f64,
    pub history_ratio: f64,
    pub efficiency_cap50_50ms: f64,
    pub start_p50_vs_bare: f64,
    pub start_p99_vs_bare: f64,
    pub idle_queries_per_s: f64,
    pub limits: Limits,
    pub without_history: Figures,
    pub with_history: Figures,
    pub server_version: String,
    pub debug_build: bool,
}

impl Report {
    pub fn new(
        limits: Limits,
        fresh: Figures,
        aged: Figures,
        server_version: String,
    ) -> Option<Self> {
        let life = fresh.whole_life_4_workers_per_s;
        let full = fresh.full.as_ref()?;
        Some(Self {
            whole_life_vs_naive_limit: life / limits.naive_tasks_per_s,
            whole_life_vs_batch_limit: life / limits.batch_tasks_per_s,
            history_ratio: aged.whole_life_4_workers_per_s / life,
            efficiency_cap50_50ms: full.efficiency_cap50_50ms,
            start_p50_vs_bare: full.start.p50_ms / limits.bare_start.p50_ms,
            start_p99_vs_bare: full.start.p99_ms / limits.bare_start.p99_ms,
            idle_queries_per_s: full.idle_queries_per_s,
            limits,
            without_history: fresh,
            with_history: aged,
            server_version,
            debug_build: cfg!(debug_assertions),
        })
    }

    pub fn print(&self, json: bool) -> anyhow::Result<()> {
        print(self, || self.table(), json)
    }

    fn table(&self) -> String {
        let (fresh, aged, limits) = (&self.without_history, &self.with_history, &self.limits);
        let heading = format!("{} tasks", fresh.history_tasks);
        let heading_aged = format!("{} tasks", aged.history_tasks);
        let mut rows = vec![row("", "of history:", &heading, &heading_aged)];
        let life = |figures: &Figures| format!("{:.0}", figures.whole_life_4_workers_per_s);
        rows.push(row("whole life, 4 workers", "tasks/s", &life(fresh), &life(aged)));
        let mut figure = |name: &str, unit: &str, of: fn(&FullFigures) -> f64, decimals: usize| {
            let shown = |figures: &Figures| {
                figures
                    .full
                    .as_ref()
                    .map_or_else(|| "-".to_owned(), |full| format!("{:.decimals$}", of(full)))
            };
            rows.push(row(name, unit, &shown(fresh), &shown(aged)));
        };
        figure("spawn, one a call", "tasks/s", |f| f.spawn_single_per_s, 0);
        figure("spawn, 50 a call", "tasks/s", |f| f.spawn_bulk_per_s, 0);
        figure("whole life, 1 worker", "tasks/s", |f| f.whole_life_1_worker_per_s, 0);
        figure("spawn to start, p50", "ms", |f| f.start.p50_ms, 2);
        figure("spawn to start, p99", "ms", |f| f.start.p99_ms, 2);
        figure("efficiency, cap 50, 50 ms tasks", "", |f| f.efficiency_cap50_50ms, 3);
        figure("an idle worker", "queries/s", |f| f.idle_queries_per_s, 2);
        rows.push(String::new());
        rows.push(format!(
            "limits (PostgreSQL {}): naive {:.0} tasks/s, batch {:.0} tasks/s, bare start p50 {:.2} ms, p99 {:.2} ms",
            self.server_version,
            limits.naive_tasks_per_s,
            limits.batch_tasks_per_s,
            limits.bare_start.p50_ms,
            limits.bare_start.p99_ms
        ));
        rows.push(String::new());
        rows.push(targets(&[
            ("whole_life_vs_naive_limit", self.whole_life_vs_naive_limit, "at least 1.0"),
            ("whole_life_vs_batch_limit", self.whole_life_vs_batch_limit, "at least 0.2"),
            ("history_ratio", self.history_ratio, "at least 0.9"),
            ("efficiency_cap50_50ms", self.efficiency_cap50_50ms, "at least 0.95"),
            ("start_p50_vs_bare", self.start_p50_vs_bare, "at most 2"),
            ("start_p99_vs_bare", self.start_p99_vs_bare, "at most 3"),
            ("idle_queries_per_s", self.idle_queries_per_s, "below 0.7"),
        ]));
        rows.join("\n")
    }
}

fn row(name: &str, unit: &str, fresh: &str, aged: &str) -> String {
    format!("{name:<32} {unit:<11} {fresh:>14} {aged:>16}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(life: f64) -> Figures {
        let start = Quantiles::of(vec![
            Duration::from_millis(2),
            Duration::from_millis(4),
            Duration::from_millis(9),
        ]);
        let full = FullFigures {
            spawn_single_per_s: 1.0,
            spawn_bulk_per_s: 1.0,
            whole_life_1_worker_per_s: 1.0,
            start,
            efficiency_cap50_50ms: 0.9,
            idle_queries_per_s: 0.5,
        };
        Figures { history_tasks: 0, whole_life_4_workers_per_s: life, full: Some(full) }
    }

    #[test]
    fn the_report_has_stable_keys_and_correct_ratios() {
        let bare_start = Quantiles { p50_ms: 2.0, p95_ms: 2.5, p99_ms: 3.0 };
        let limits = Limits { naive_tasks_per_s: 50.0, batch_tasks_per_s: 400.0, bare_start };
        let aged = Figures { full: None, ..figures(90.0) };
        let report = Report::new(limits, figures(100.0), aged, "15".to_owned()).unwrap();
        let json = serde_json::to_value(&report).unwrap();
        for (key, ratio) in [
            ("whole_life_vs_naive_limit", 2.0),
            ("whole_life_vs_batch_limit", 0.25),
            ("history_ratio", 0.9),
            ("efficiency_cap50_50ms", 0.9),
            ("start_p50_vs_bare", 2.0),
            ("start_p99_vs_bare", 3.0),
            ("idle_queries_per_s", 0.5),
        ] {
            assert_eq!(json[key].as_f64(), Some(ratio), "{key}");
            assert!(report.table().contains(key), "{key}");
        }
        assert_eq!(json["without_history"]["spawn_bulk_per_s"], 1.0);
        assert_eq!(
            json["with_history"].get("spawn_bulk_per_s"),
            None,
            "not measured in a quick run"
        );
    }
}
