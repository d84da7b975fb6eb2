//! Tasks as text: lines and tables.

use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::moment::age;
use crate::output::Shown;
use crate::table::{Column, OutputStyle, count_noun, table, text, truncate};

/// The most characters of a label or an error in a table.
const SHORT: usize = 60;

/// The most characters with the reason why a model call is tried again.
const WITH_REASON: usize = 120;

/// An unfinished task, on one line.
pub fn progress_line(task: &Value) -> String {
    let (id, agent) = (text(task, "task_id"), text(task, "agent"));
    let before = task.get("queue_position").and_then(Value::as_u64);
    let how = match (state(task).as_str(), before) {
        ("queued", Some(0)) => "queued, the next".to_owned(),
        ("queued", Some(before)) => format!("queued, {before} before it"),
        (state, _) => match turns(task) {
            0 => state.to_owned(),
            turns => format!("{state}, {}", count_noun(turns, "turn")),
        },
    };
    // What its model call waits for is more precise than what the task waits for.
    match (retrying(task), why(task)) {
        (retrying, _) if !retrying.is_empty() => format!("{id} {agent}: {how}; {retrying}"),
        (_, Some(why)) => format!("{id} {agent}: {how}: {why}"),
        (_, None) => format!("{id} {agent}: {how}"),
    }
}

/// Why an unfinished task does not run, as a sentence with its time; none if nothing holds it back.
pub fn why(task: &Value) -> Option<String> {
    let why = task.get("why").filter(|why| text(why, "code") != "next")?;
    let sentence = text(why, "text");
    if sentence.is_empty() {
        return None;
    }
    Some(match text(why, "until") {
        until if until.is_empty() => sentence,
        until => format!("{sentence}, until {until}"),
    })
}

/// The code of the reason why an unfinished task does not run; empty if nothing holds it back.
pub fn why_code(task: &Value) -> String {
    let code = task.get("why").map(|why| text(why, "code")).unwrap_or_default();
    if code == "next" { String::new() } else { code }
}

/// An ended task, on one line.
pub fn end_line(task: &Value) -> String {
    let turns = count_noun(turns(task), "turn");
    let line =
        format!("{} {} {} after {turns}", text(task, "task_id"), text(task, "agent"), state(task));
    match text(task, "error") {
        error if error.is_empty() => line,
        error => format!("{line}: {error}"),
    }
}

/// A table of tasks, from `status` or from the history.
pub fn table_of_tasks(tasks: &[Value], now: DateTime<Utc>, style: OutputStyle) -> Shown {
    let columns = [
        Column::Word("TASK"),
        Column::Name("AGENT"),
        Column::State("STATE"),
        Column::Number("TURNS"),
        Column::Number("AGE"),
        Column::Text("ABOUT"),
    ];
    let rows: Vec<Vec<String>> = tasks
        .iter()
        .map(|task| {
            vec![
                text(task, "task_id"),
                text(task, "agent"),
                state_with_reason(task),
                turns(task).to_string(),
                age(&text(task, "created_at"), now),
                about(task),
            ]
        })
        .collect();
    table(&columns, &rows, style)
}

/// The state of the history, or the phase of the tool, which is more precise than its status.
pub fn state(task: &Value) -> String {
    ["state", "phase", "status"]
        .into_iter()
        .map(|name| text(task, name))
        .find(|word| !word.is_empty())
        .unwrap_or_default()
}

/// The state, followed by the failure, or by what the task waits for and its place in the queue.
pub fn state_with_reason(task: &Value) -> String {
    let state = state(task);
    let before = task.get("queue_position").and_then(Value::as_u64);
    let before = before.filter(|_| state == "queued").map(|before| format!("{before} before"));
    let reasons: Vec<String> = [text(task, "failure"), why_code(task), before.unwrap_or_default()]
        .into_iter()
        .filter(|reason| !reason.is_empty())
        .collect();
    if reasons.is_empty() { state } else { format!("{state} ({})", reasons.join(", ")) }
}

/// The label and the error, or why the model call is tried again, or why the task waits.
pub fn about(task: &Value) -> String {
    let why = Some(retrying(task)).filter(|why| !why.is_empty()).or_else(|| why(task));
    let width = if why.is_none() { SHORT } else { WITH_REASON };
    let parts = [text(task, "label"), text(task, "error"), why.unwrap_or_default()];
    let parts: Vec<&str> =
        parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    truncate(&parts.join(": "), width)
}

/// Why the model call of a task is tried again; empty if it is not.
pub fn retrying(task: &Value) -> String {
    task.get("retrying").map(|retrying| text(retrying, "text")).unwrap_or_default()
}

pub fn turns(task: &Value) -> u64 {
    task.get("turns_used").and_then(Value::as_u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::moment::parse_time;
    use crate::table::Colors;

    #[test]
    fn progress_shows_the_position_in_the_queue_or_the_turns() {
        let task = |more: Value| {
            let mut task = json!({"task_id": "t_03", "agent": "researcher", "status": "running", "turns_used": 0});
            task.as_object_mut().unwrap().append(&mut more.as_object().unwrap().clone());
            task
        };
        for (more, expected) in [
            (json!({"phase": "queued", "queue_position": 0}), "t_03 researcher: queued, the next"),
            (
                json!({"phase": "queued", "queue_position": 2}),
                "t_03 researcher: queued, 2 before it",
            ),
            (json!({"phase": "running", "turns_used": 1}), "t_03 researcher: running, 1 turn"),
            (json!({"phase": "waiting", "turns_used": 4}), "t_03 researcher: waiting, 4 turns"),
            (json!({}), "t_03 researcher: running"),
            (
                json!({"phase": "queued", "queue_position": 0, "why": {"code": "next", "text": "Soon"}}),
                "t_03 researcher: queued, the next",
            ),
            (
                json!({"phase": "queued", "queue_position": 1, "why": {"code": "cap", "text": "All slots are in use"}}),
                "t_03 researcher: queued, 1 before it: All slots are in use",
            ),
            (
                json!({"phase": "running", "why": {"code": "lease", "text": "Lost", "until": "2026-07-01T00:00:00Z"}}),
                "t_03 researcher: running: Lost, until 2026-07-01T00:00:00Z",
            ),
            (
                json!({"phase": "running", "retrying": {"text": "model `main` at host: 503, try 2 of 8, next in 1 s"}}),
                "t_03 researcher: running; model `main` at host: 503, try 2 of 8, next in 1 s",
            ),
        ] {
            assert_eq!(progress_line(&task(more)), expected);
        }
    }

    #[test]
    fn a_failure_is_shown_with_its_reason() {
        let task = json!({"task_id": "t_03", "agent": "clerk", "status": "failed", "turns_used": 1, "error": "Task cancelled"});
        assert_eq!(end_line(&task), "t_03 clerk failed after 1 turn: Task cancelled");
    }

    #[test]
    fn a_table_of_tasks_shows_history_and_tool_answers_alike() {
        let of_tool = json!({"task_id": "t_01", "agent": "clerk", "status": "running", "phase": "queued", "queue_position": 3, "turns_used": 0});
        let waits = json!({"task_id": "t_03", "agent": "clerk", "state": "queued", "turns_used": 2,
            "label": "logs", "why": {"code": "gate", "text": "Calls are held back"}});
        let of_history = json!({"task_id": "t_02", "agent": "clerk", "state": "failed", "failure": "max_turns", "turns_used": 10,
            "created_at": "2026-07-01T00:00:00Z", "label": "logs", "error": "Max turns exceeded without producing a final response"});
        let now = parse_time("2026-07-01T01:00:00Z").unwrap();
        let shown = table_of_tasks(
            &[of_tool, of_history, waits],
            now,
            OutputStyle { width: 120, colors: Colors::Off },
        );
        assert_eq!(
            shown.lines().collect::<Vec<_>>(),
            [
                "TASK  AGENT  STATE               TURNS  AGE  ABOUT",
                "t_01  clerk  queued (3 before)       0",
                "t_02  clerk  failed (max_turns)     10   1h  logs: Max turns exceeded without producing a final response",
                "t_03  clerk  queued (gate)           2       logs: Calls are held back",
            ]
        );
    }
}
