//! Answers about several sessions.

use std::time::Duration;

use adjutant_agent::TaskNumber;
use serde_json::json;

use super::record::Record;
use crate::Answer;

/// The number of sessions, and a table of those that changed last.
pub fn sessions(count: i64, records: &[Record]) -> Answer {
    let row =
        |record: &Record| format!("{} | {} | {}", record.number, record.category, record.lifecycle);
    let mut lines: Vec<String> = records.iter().map(row).collect();
    let left = count - i64::try_from(lines.len()).unwrap_or(count);
    if lines.is_empty() {
        lines.push("There are no subagent sessions.".to_owned());
    } else {
        lines.insert(0, "Session ID | Category | Status".to_owned());
    }
    if left > 0 {
        lines.push(format!("({left} more)"));
    }
    Answer::json(json!({"status": "ok", "session_count": count, "summary_table": lines.join("\n")}))
}

/// One message for all sessions that have ended.
pub fn notification(records: &[Record]) -> Answer {
    let lines: Vec<String> = records.iter().map(Record::notification_line).collect();
    Answer::plain(format!("Background subagent updates:\n{}", lines.join("\n")))
}

/// The answer of a wait without active sessions and without unread notifications: how the named
/// sessions ended.
pub fn nothing_new(records: &[Record]) -> Answer {
    let ended: Vec<String> =
        records.iter().map(|record| format!("{} {}", record.number, record.lifecycle)).collect();
    Answer::plain(match ended.as_slice() {
        [] => "There is nothing to wait for: no background subagent is under way, and there is no news."
            .to_owned(),
        ended => format!("There is no news: {}.", ended.join(", ")),
    })
}

/// The answer of a wait that has taken as long as a call may.
pub fn still_waiting(active: &[TaskNumber]) -> Answer {
    let names: Vec<String> = active.iter().take(20).map(ToString::to_string).collect();
    let text = format!("Still under way: {}. Call subagent_wait again.", names.join(", "));
    Answer::plain(text).of_running_task()
}

/// The answer of a wait whose own timeout is over.
pub fn wait_timed_out(waited: Duration) -> Answer {
    let seconds = waited.as_secs_f64();
    Answer::plain(format!("Error: subagent_wait_timeout: Subagent wait timeout after {seconds}s"))
        .as_error()
}
