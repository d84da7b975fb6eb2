use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::snapshot::Snapshot;
use crate::commands::task_text;
use crate::moment::{age, short_duration};
use crate::output::Shown;
use crate::table::{Column, OutputStyle, count_noun, table, text};

/// The context of a view.
pub struct ViewContext<'a> {
    pub url: &'a str,
    pub now: DateTime<Utc>,
    /// The height of the terminal.
    pub rows: usize,
}

/// A summary of the fleet, and as many tasks as fit below it.
pub fn render(snapshot: &Snapshot, context: &ViewContext<'_>, style: OutputStyle) -> Shown {
    let width = usize::from(style.width);
    let mut lines = vec![format!("{}  {}", context.url, context.now.format("%H:%M:%S UTC"))];
    lines.extend(join_lines(&summary(&snapshot.stats), width));
    lines.push(String::new());
    lines.iter_mut().for_each(|line| *line = line.chars().take(width).collect());
    let shown = if snapshot.tasks.is_empty() {
        let hint: String =
            "No tasks yet. See `adjutant spawn --help`.".chars().take(width).collect();
        Shown::from(lines.join("\n")).above(hint)
    } else {
        Shown::from(lines.join("\n")).above(tasks(snapshot, context, style))
    };
    // One line stays free for an error at the top.
    shown.first_lines(context.rows.saturating_sub(1))
}

/// Joins parts to lines, as many as fit on each.
fn join_lines(parts: &[String], width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        match lines.last_mut() {
            Some(line) if line.len() + 3 + part.len() <= width => {
                *line = format!("{line}   {part}")
            }
            Some(_) | None => lines.push(part.clone()),
        }
    }
    lines
}

fn summary(stats: &Value) -> [String; 5] {
    let number = |path: &str| stats.pointer(path).and_then(Value::as_u64).unwrap_or(0);
    let oldest = stats.pointer("/queue/oldest_s").and_then(Value::as_f64);
    let oldest = oldest.and_then(|oldest| Duration::try_from_secs_f64(oldest).ok());
    let oldest =
        oldest.map(|oldest| format!(" (oldest {})", short_duration(oldest))).unwrap_or_default();
    let usd = stats.get("cost_usd").and_then(Value::as_f64).unwrap_or(0.0);
    [
        count_noun(number("/workers_alive"), "worker"),
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

fn tasks(snapshot: &Snapshot, context: &ViewContext<'_>, style: OutputStyle) -> Shown {
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
            task_text::state_with_reason(task),
            task_text::turns(task).to_string(),
            age(&text(task, "created_at"), context.now),
            age(&text(task, "last_activity_at"), context.now),
            task_text::about(task),
        ]
    };
    let shown = snapshot.tasks.iter().take(context.rows);
    table(&columns, &shown.map(row).collect::<Vec<_>>(), style)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::moment::parse_time;
    use crate::table::Colors;

    fn snapshot() -> Snapshot {
        let stats = json!({"workers_alive": 1, "slots": {"used": 2, "cap": 5}, "queue": {"queued": 3, "oldest_s": 90.5},
            "states": {"waiting": 1, "completed": 7, "failed": 2}, "cost_usd": 0.5});
        let task = |number: u64| {
            json!({"session_id": "default", "task_id": format!("t_{number:02}"), "agent": "clerk", "state": "running",
                "turns_used": number, "created_at": "2026-07-01T00:00:00Z", "last_activity_at": "2026-07-01T00:00:50Z"})
        };
        Snapshot { stats, tasks: (1..=30).map(task).collect() }
    }

    fn context(rows: usize) -> ViewContext<'static> {
        ViewContext { url: "http://here", now: parse_time("2026-07-01T00:01:00Z").unwrap(), rows }
    }

    #[test]
    fn a_view_shows_the_fleet_and_the_tasks() {
        let shown =
            render(&snapshot(), &context(6), OutputStyle { width: 120, colors: Colors::Off });
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
            let shown =
                render(&snapshot(), &context(rows), OutputStyle { width, colors: Colors::Off });
            assert!(shown.lines().count() < rows.max(2), "{shown}");
            if width >= 50 {
                assert!(
                    shown.lines().all(|line| line.chars().count() <= usize::from(width)),
                    "{shown}"
                );
            }
        }
    }
}
