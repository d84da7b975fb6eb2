use std::collections::HashMap;

use serde_json::Value;

use super::snapshot::Snapshot;
use crate::commands::task_text;
use crate::table::{count_noun, text};

/// The part of a task whose changes are printed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Progress {
    state: String,
    turns: u64,
    /// What it waits for, if it is held back.
    why: String,
    /// The failed tries of its model call, and the error of the last one.
    retrying: Option<(u64, String)>,
}

impl Progress {
    fn of(task: &Value) -> Self {
        let retrying = task.get("retrying").map(|retrying| {
            (retrying.get("tries").and_then(Value::as_u64).unwrap_or(0), text(retrying, "error"))
        });
        Self {
            state: task_text::state(task),
            turns: task_text::turns(task),
            why: task_text::why_code(task),
            retrying,
        }
    }

    fn is_terminal(&self) -> bool {
        matches!(self.state.as_str(), "completed" | "failed" | "cancelled")
    }
}

/// What has been printed, so that every change is printed once.
#[derive(Debug, Default)]
pub struct Changes {
    printed: Option<HashMap<String, Progress>>,
}

impl Changes {
    /// The tasks that have changed, oldest first. In the first snapshot: the unfinished tasks.
    pub fn since<'a>(&mut self, snapshot: &'a Snapshot) -> Vec<&'a Value> {
        let now: HashMap<String, Progress> =
            snapshot.tasks.iter().map(|task| (text(task, "id"), Progress::of(task))).collect();
        let has_changed = |task: &&Value| {
            let (id, progress) = (text(task, "id"), Progress::of(task));
            match &self.printed {
                None => !progress.is_terminal(),
                Some(printed) => printed.get(&id) != Some(&progress),
            }
        };
        let mut changed: Vec<&Value> = snapshot.tasks.iter().filter(has_changed).collect();
        changed.sort_by_key(|task| text(task, "created_at"));
        self.printed = Some(now);
        changed
    }

    /// Tasks whose end has not been printed.
    pub fn unfinished(&self) -> Vec<String> {
        let printed = self.printed.iter().flatten();
        printed.filter(|(_, progress)| !progress.is_terminal()).map(|(id, _)| id.clone()).collect()
    }
}

pub fn line(task: &Value) -> String {
    let turns = match task_text::turns(task) {
        0 => String::new(),
        turns => format!(", {}", count_noun(turns, "turn")),
    };
    let about = match task_text::about(task) {
        about if about.is_empty() => about,
        about => format!("  {about}"),
    };
    let (at, session) = (text(task, "last_activity_at"), text(task, "session_id"));
    let (id, agent) = (text(task, "task_id"), text(task, "agent"));
    format!("{at}  {session}/{id}  {agent}  {}{turns}{about}", task_text::state_with_reason(task))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn snapshot(tasks: &[(&str, &str, u64)]) -> Snapshot {
        let task = |(id, state, turns): &(&str, &str, u64)| json!({"id": id, "created_at": id, "state": state, "turns_used": turns});
        Snapshot { stats: Value::Null, tasks: tasks.iter().map(task).collect() }
    }

    fn ids(changed: &[&Value]) -> Vec<String> {
        changed.iter().map(|task| text(task, "id")).collect()
    }

    #[test]
    fn every_change_is_printed_once_and_earlier_ones_are_not() {
        let mut changes = Changes::default();
        let first = snapshot(&[("c", "running", 1), ("b", "queued", 0), ("a", "completed", 3)]);
        assert_eq!(ids(&changes.since(&first)), ["b", "c"]);
        assert!(changes.since(&first).is_empty());
        let mut unfinished = changes.unfinished();
        unfinished.sort();
        assert_eq!(unfinished, ["b", "c"]);
        let next = snapshot(&[
            ("d", "completed", 1),
            ("c", "running", 2),
            ("b", "running", 0),
            ("a", "completed", 3),
        ]);
        assert_eq!(ids(&changes.since(&next)), ["b", "c", "d"]);
        assert!(changes.since(&next).is_empty());
    }

    #[test]
    fn a_task_is_printed_when_the_reason_of_its_waiting_changes() {
        let with = |why: Value| Snapshot {
            stats: Value::Null,
            tasks: vec![json!({"id": "a", "state": "queued", "why": why})],
        };
        let mut changes = Changes::default();
        assert_eq!(changes.since(&with(json!({"code": "next", "text": "Soon"}))).len(), 1);
        assert_eq!(changes.since(&with(Value::Null)).len(), 0, "nothing holds it back");
        assert_eq!(changes.since(&with(json!({"code": "cap", "text": "Full"}))).len(), 1);
        assert_eq!(changes.since(&with(json!({"code": "cap", "text": "Full"}))).len(), 0);
    }

    #[test]
    fn every_failed_try_of_a_model_call_is_a_change() {
        let task = |tries: u64, next: u64| {
            let text = format!("model `main` at host: 503, try {tries} of 8, next in {next} s");
            json!({"id": "a", "created_at": "a", "state": "running", "session_id": "nightly", "task_id": "t_03",
                "agent": "clerk", "retrying": {"text": text, "tries": tries, "error": "503"}})
        };
        let of = |task| Snapshot { stats: Value::Null, tasks: vec![task] };
        let mut changes = Changes::default();
        assert_eq!(changes.since(&of(task(1, 3))).len(), 1);
        assert!(changes.since(&of(task(1, 2))).is_empty(), "the countdown is no change");
        let next = of(task(2, 5));
        let changed = changes.since(&next);
        assert!(
            line(changed[0])
                .ends_with("running  model `main` at host: 503, try 2 of 8, next in 5 s")
        );
    }

    #[test]
    fn a_line_has_the_task_and_its_change() {
        let task = json!({"session_id": "nightly", "task_id": "t_03", "agent": "clerk", "state": "failed", "failure": "model",
            "turns_used": 1, "error": "Model API error: 401", "last_activity_at": "2026-07-01T00:00:00Z"});
        assert_eq!(
            line(&task),
            "2026-07-01T00:00:00Z  nightly/t_03  clerk  failed (model), 1 turn  Model API error: 401"
        );
    }
}
