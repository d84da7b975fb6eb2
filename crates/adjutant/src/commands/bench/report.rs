//! What was measured, as people and programs read it.

use std::time::Duration;

use serde::Serialize;

use crate::output::print_line;

#[derive(Debug, Clone, Copy, Serialize)]
pub struct Quantiles {
    pub p50_ms: f64,
    pub p99_ms: f64,
}

impl Quantiles {
    pub fn of(mut times: Vec<Duration>) -> Self {
        times.sort();
        let at = |share: usize| {
            let place = (times.len() * share / 100).min(times.len().saturating_sub(1));
            times.get(place).map_or(f64::NAN, |time| time.as_secs_f64() * 1000.0)
        };
        Self { p50_ms: at(50), p99_ms: at(99) }
    }
}

/// The limits, by PostgreSQL's own means.
#[derive(Debug, Serialize)]
pub struct Limits {
    pub naive_tasks_per_s: f64,
    pub batch_tasks_per_s: f64,
    pub bare_start: Quantiles,
}

/// Our figures with a history of some length.
#[derive(Debug, Serialize)]
pub struct Figures {
    pub history_tasks: i64,
    pub spawn_single_per_s: f64,
    pub spawn_bulk_per_s: f64,
    pub whole_life_1_worker_per_s: f64,
    pub whole_life_4_workers_per_s: f64,
    pub start: Quantiles,
    pub efficiency_cap50_50ms: f64,
    pub idle_queries_per_s: f64,
}

/// The keys are stable.
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
    pub fn new(limits: Limits, fresh: Figures, aged: Figures, server_version: String) -> Self {
        let life = fresh.whole_life_4_workers_per_s;
        Self {
            whole_life_vs_naive_limit: life / limits.naive_tasks_per_s,
            whole_life_vs_batch_limit: life / limits.batch_tasks_per_s,
            history_ratio: aged.whole_life_4_workers_per_s / life,
            efficiency_cap50_50ms: fresh.efficiency_cap50_50ms,
            start_p50_vs_bare: fresh.start.p50_ms / limits.bare_start.p50_ms,
            start_p99_vs_bare: fresh.start.p99_ms / limits.bare_start.p99_ms,
            idle_queries_per_s: fresh.idle_queries_per_s,
            limits,
            without_history: fresh,
            with_history: aged,
            server_version,
            debug_build: cfg!(debug_assertions),
        }
    }

    pub fn print(&self, json: bool) -> anyhow::Result<()> {
        if json {
            return print_line(&serde_json::to_string(self)?);
        }
        if self.debug_build {
            eprintln!("adjutant: this is a debug build; figures mean something with `cargo run --release`");
        }
        print_line(&self.table())
    }

    fn table(&self) -> String {
        let (fresh, aged, limits) = (&self.without_history, &self.with_history, &self.limits);
        let heading = format!("{} tasks", fresh.history_tasks);
        let heading_aged = format!("{} tasks", aged.history_tasks);
        let mut rows = vec![row("", "of history:", &heading, &heading_aged)];
        let mut figure = |name: &str, unit: &str, of: fn(&Figures) -> f64, decimals: usize| {
            rows.push(row(
                name,
                unit,
                &format!("{:.decimals$}", of(fresh)),
                &format!("{:.decimals$}", of(aged)),
            ));
        };
        figure("spawn, one a call", "tasks/s", |f| f.spawn_single_per_s, 0);
        figure("spawn, 50 a call", "tasks/s", |f| f.spawn_bulk_per_s, 0);
        figure("whole life, 1 worker", "tasks/s", |f| f.whole_life_1_worker_per_s, 0);
        figure("whole life, 4 workers", "tasks/s", |f| f.whole_life_4_workers_per_s, 0);
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
        for (name, ratio, wanted) in [
            ("whole_life_vs_naive_limit", self.whole_life_vs_naive_limit, "at least 1.0"),
            ("whole_life_vs_batch_limit", self.whole_life_vs_batch_limit, "at least 0.2"),
            ("history_ratio", self.history_ratio, "at least 0.9"),
            ("efficiency_cap50_50ms", self.efficiency_cap50_50ms, "at least 0.95"),
            ("start_p50_vs_bare", self.start_p50_vs_bare, "at most 2"),
            ("start_p99_vs_bare", self.start_p99_vs_bare, "at most 3"),
            ("idle_queries_per_s", self.idle_queries_per_s, "below 0.7"),
        ] {
            rows.push(format!("{name:<28} {ratio:>8.3}   {wanted}"));
        }
        rows.join("\n")
    }
}

fn row(name: &str, unit: &str, fresh: &str, aged: &str) -> String {
    format!("{name:<32} {unit:<11} {fresh:>14} {aged:>16}").trim_end().to_owned()
}
