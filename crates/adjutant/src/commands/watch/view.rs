use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::snapshot::Snapshot;
use crate::commands::tell;
use crate::moment::{ago, span};
use crate::table::{Column, Look, counted, table, text};

/// What a view is drawn on.
pub struct Page<'a> {
    pub url: &'a str,
    pub now: DateTime<Utc>,
    /// How many lines there are.
    pub rows: usize,
}

/// The fleet on as few lines as it fits, and the tasks under it, as many as there is room for.
pub fn render(snapshot: &Snapshot, page: &Page<'_>, look: Look) -> String {
    let width = usize::from(look.width);
    let mut lines = vec![format!("{}  {}", page.url, page.now.format("%H:%M:%S UTC"))];
    lines.extend(wrapped(&fleet(&snapshot.stats), width));
    lines.push(String::new());
    lines.iter_mut().for_each(|line| *line = line.chars().take(width).collect());
    if snapshot.tasks.is_empty() {
        lines.push("No tasks yet. adjutant spawn --help".chars().take(width).collect());
    } else {
        lines.extend(tasks(snapshot, page, look).lines().map(str::to_owned));
    }
    // One is for whatever has to be said above.
    lines.truncate(page.rows.saturating_sub(1));
    lines.join("\n")
}

/// Parts side by side, as many as fit on a line.
fn wrapped(parts: &[String], width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        match lines.last_mut() {
            Some(line) if line.len() + 3 + part.len() <= width => *line = format!("{line}   {part}"),
            Some(_) | None => lines.push(part.clone()),
        }
    }
    lines
}

fn fleet(stats: &Value) -> [String; 5] {
    let number = |path: &str| stats.pointer(path).and_then(Value::as_u64).unwrap_or(0);
    let oldest = stats.pointer("/queue/oldest_s").and_then(Value::as_f64);
    let oldest = oldest.and_then(|oldest| Duration::try_from_secs_f64(oldest).ok());
    let oldest = oldest.map(|oldest| format!(" (oldest {})", span(oldest))).unwrap_or_default();
    let usd = stats.get("cost_usd").and_then(Value::as_f64).unwrap_or(0.0);
    [
        counted(number("/workers_alive"), "worker"),
        format!("{}/{} slots", number("/slots/used"), number("/slots/cap")),
        format!("{} queued{oldest}", number("/queue/queued")),
        format!("{} waiting", number("/states/waiting")),
        format!(
            "last day: {} completed, {} failed, {usd:.4} USD",
            number("/states/completed"),
            number("/states/failed"),
        ),
    ]
}

fn tasks(snapshot: &Snapshot, page: &Page<'_>, look: Look) -> String {
    let columns = [
        Column::Name("SESSION"),
        Column::Word("TASK"),
        Column::Name("AGENT"),
        Column::State("STATE"),
        Column::Number("TURNS"),
        Column::Number("AGE"),
        Column::Number("ACTIVE"),
        Column::Line("ABOUT"),
    ];
    let row = |task: &Value| {
        vec![
            text(task, "session_id"),
            text(task, "task_id"),
            text(task, "agent"),
            tell::state_and_why(task),
            tell::turns(task).to_string(),
            ago(&text(task, "created_at"), page.now),
            ago(&text(task, "last_activity_at"), page.now),
            tell::about(task),
        ]
    };
    let shown = snapshot.tasks.iter().take(page.rows);
    table(&columns, &shown.map(row).collect::<Vec<_>>(), look)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::moment::read_moment;
    use crate::table::Paint;

    fn snapshot() -> Snapshot {
        let stats = json!({"workers_alive": 1, "slots": {"used": 2, "cap": 5}, "queue": {"queued": 3, "oldest_s": 90.5},
            "states": {"waiting": 1, "completed": 7, "failed": 2}, "cost_usd": 0.5});
        let task = |number: u64| {
            json!({"session_id": "default", "task_id": format!("t_{number:02}"), "agent": "clerk", "state": "running",
                "turns_used": number, "created_at": "2026-07-01T00:00:00Z", "last_activity_at": "2026-07-01T00:00:50Z"})
        };
        Snapshot { stats, tasks: (1..=30).map(task).collect() }
    }

    fn page(rows: usize) -> Page<'static> {
        Page { url: "http://here", now: read_moment("2026-07-01T00:01:00Z").unwrap(), rows }
    }

    #[test]
    fn a_view_has_the_fleet_and_the_tasks() {
        let shown = render(&snapshot(), &page(6), Look { width: 120, paint: Paint::Plain });
        assert_eq!(
            shown.lines().collect::<Vec<_>>(),
            [
                "http://here  00:01:00 UTC",
                "1 worker   2/5 slots   3 queued (oldest 1m)   1 waiting   last day: 7 completed, 2 failed, 0.5000 USD",
                "",
                "SESSION  TASK  AGENT  STATE    TURNS  AGE  ACTIVE  ABOUT",
                "default  t_01  clerk  running      1   1m     10s",
            ]
        );
    }

    #[test]
    fn a_view_fits_its_terminal() {
        for (rows, width) in [(24, 80), (15, 50), (10, 60), (1, 10)] {
            let shown = render(&snapshot(), &page(rows), Look { width, paint: Paint::Plain });
            assert!(shown.lines().count() < rows.max(2), "{shown}");
            if width >= 50 {
                assert!(shown.lines().all(|line| line.chars().count() <= usize::from(width)), "{shown}");
            }
        }
    }
}
