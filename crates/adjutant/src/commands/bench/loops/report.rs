//! The report of `bench loops`.

use serde::Serialize;

use super::super::report::{Quantiles, print, targets};

/// The cost of a turn without tools, one loop at a time.
#[derive(Debug, Serialize)]
pub struct TurnCosts {
    /// Transactions that wrote something, including claims, ends and renewals.
    pub commits_per_turn: f64,
    /// The time from the end of a model answer to the next request.
    pub turn_overhead: Quantiles,
    /// A committed insert of a row of the same size.
    pub insert: Quantiles,
}

/// Concurrent loops in one worker.
#[derive(Debug, Serialize)]
pub struct LoopGroup {
    pub loops: usize,
    /// The time from the claim to the end.
    pub time: Quantiles,
    pub turn_overhead: Quantiles,
    /// The peak memory of the worker.
    pub rss_kib: u64,
    /// The size of the conversation of one loop.
    pub conversation_bytes: usize,
}

/// The keys of the JSON object. They are stable.
#[derive(Debug, Serialize)]
pub struct Report {
    pub slowdown_1000_vs_10: f64,
    pub kib_per_loop: f64,
    pub turn_overhead_vs_insert: f64,
    pub commits_per_turn: f64,
    /// Transactions of all kinds in the run with many loops, including the start of the worker and
    /// the spawns.
    pub round_trips_per_turn: f64,
    pub costs: TurnCosts,
    pub few: LoopGroup,
    pub many: LoopGroup,
    pub server_version: String,
    pub debug_build: bool,
}

impl Report {
    pub fn new(
        costs: TurnCosts,
        few: LoopGroup,
        many: LoopGroup,
        round_trips_per_turn: f64,
        server_version: String,
    ) -> Self {
        Self {
            slowdown_1000_vs_10: many.time.p95_ms / few.time.p95_ms,
            kib_per_loop: kib_per_loop(&few, &many),
            turn_overhead_vs_insert: costs.turn_overhead.p50_ms / costs.insert.p50_ms,
            commits_per_turn: costs.commits_per_turn,
            round_trips_per_turn,
            costs,
            few,
            many,
            server_version,
            debug_build: cfg!(debug_assertions),
        }
    }

    pub fn print(&self, json: bool) -> anyhow::Result<()> {
        print(self, || self.table(), json)
    }

    fn table(&self) -> String {
        let (few, many, costs) = (&self.few, &self.many, &self.costs);
        let mut rows = vec![row("", "loops:", &few.loops.to_string(), &many.loops.to_string())];
        let mut figure = |name: &str, of: fn(&LoopGroup) -> f64, decimals: usize| {
            let shown = |group: &LoopGroup| format!("{:.decimals$}", of(group));
            rows.push(row(name, "ms", &shown(few), &shown(many)));
        };
        figure("a loop, p50", |group| group.time.p50_ms, 0);
        figure("a loop, p95", |group| group.time.p95_ms, 0);
        figure("between two turns, p50", |group| group.turn_overhead.p50_ms, 2);
        figure("between two turns, p95", |group| group.turn_overhead.p95_ms, 2);
        rows.push(row(
            "memory of the worker",
            "KiB",
            &few.rss_kib.to_string(),
            &many.rss_kib.to_string(),
        ));
        rows.push(String::new());
        rows.push(format!(
            "a turn of a single loop (PostgreSQL {}): {:.2} ms between two turns, p50; an insert {:.2} ms; {:.2} round trips a turn",
            self.server_version, costs.turn_overhead.p50_ms, costs.insert.p50_ms, self.round_trips_per_turn,
        ));
        rows.push(String::new());
        rows.push(targets(&[
            ("slowdown_1000_vs_10", self.slowdown_1000_vs_10, "at most 1.05"),
            ("kib_per_loop", self.kib_per_loop, "below 64"),
            ("turn_overhead_vs_insert", self.turn_overhead_vs_insert, "at most 3"),
            ("commits_per_turn", self.commits_per_turn, "at most 2"),
        ]));
        rows.join("\n")
    }
}

/// The memory of one more loop, without its conversation.
#[expect(clippy::cast_precision_loss, reason = "sizes in a benchmark are far below 2^52")]
fn kib_per_loop(few: &LoopGroup, many: &LoopGroup) -> f64 {
    let more = many.rss_kib as f64 - few.rss_kib as f64;
    more / (many.loops as f64 - few.loops as f64) - many.conversation_bytes as f64 / 1024.0
}

fn row(name: &str, unit: &str, few: &str, many: &str) -> String {
    format!("{name:<32} {unit:<11} {few:>14} {many:>16}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantiles(p95_ms: f64) -> Quantiles {
        Quantiles { p50_ms: p95_ms / 2.0, p95_ms, p99_ms: p95_ms * 2.0 }
    }

    fn group(loops: usize, p95_ms: f64, rss_kib: u64) -> LoopGroup {
        LoopGroup {
            loops,
            time: quantiles(p95_ms),
            turn_overhead: quantiles(1.0),
            rss_kib,
            conversation_bytes: 2048,
        }
    }

    #[test]
    fn the_report_has_stable_keys_and_correct_ratios() {
        let costs = TurnCosts {
            commits_per_turn: 1.5,
            turn_overhead: quantiles(6.0),
            insert: quantiles(2.0),
        };
        let few = group(10, 10_000.0, 20_000);
        let many = group(1010, 10_400.0, 40_000);
        let report = Report::new(costs, few, many, 2.5, "15".to_owned());
        let json = serde_json::to_value(&report).unwrap();
        for (key, ratio) in [
            ("slowdown_1000_vs_10", 1.04),
            ("kib_per_loop", 18.0),
            ("turn_overhead_vs_insert", 3.0),
            ("commits_per_turn", 1.5),
        ] {
            assert_eq!(json[key].as_f64(), Some(ratio), "{key}");
            assert!(report.table().contains(key), "{key}");
        }
        assert_eq!(json["round_trips_per_turn"], 2.5);
        assert_eq!(json["many"]["rss_kib"], 40_000);
    }
}
