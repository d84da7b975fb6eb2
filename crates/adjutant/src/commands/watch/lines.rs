use std::collections::HashMap;

use serde_json::Value;

use super::snapshot::Snapshot;
use crate::commands::tell;
use crate::table::{counted, text};

/// What of a task is worth a line when it changes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Standing {
    state: String,
    turns: u64,
}

impl Standing {
    fn of(task: &Value) -> Self {
        Self { state: tell::state(task), turns: tell::turns(task) }
    }

    fn is_terminal(&self) -> bool {
        matches!(self.state.as_str(), "completed" | "failed" | "cancelled")
    }
}

/// What was told, so that it is told once.
#[derive(Debug, Default)]
pub struct Changes {
    told: Option<HashMap<String, Standing>>,
}

impl Changes {
    /// The tasks that are not as they were, the oldest first. At the first look: those that are unfinished.
    pub fn since<'a>(&mut self, snapshot: &'a Snapshot) -> Vec<&'a Value> {
        let now: HashMap<String, Standing> =
            snapshot.tasks.iter().map(|task| (text(task, "id"), Standing::of(task))).collect();
        let is_news = |task: &&Value| {
            let (id, standing) = (text(task, "id"), Standing::of(task));
            match &self.told {
                None => !standing.is_terminal(),
                Some(told) => told.get(&id) != Some(&standing),
            }
        };
        let mut news: Vec<&Value> = snapshot.tasks.iter().filter(is_news).collect();
        news.sort_by_key(|task| text(task, "created_at"));
        self.told = Some(now);
        news
    }

    /// Those whose end is still to be told.
    pub fn unfinished(&self) -> Vec<String> {
        let told = self.told.iter().flatten();
        told.filter(|(_, standing)| !standing.is_terminal()).map(|(id, _)| id.clone()).collect()
    }
}

pub fn line(task: &Value) -> String {
    let turns = match tell::turns(task) {
        0 => String::new(),
        turns => format!(", {}", counted(turns, "turn")),
    };
    let about = match tell::about(task) {
        about if about.is_empty() => about,
        about => format!("  {about}"),
    };
    let (at, session) = (text(task, "last_activity_at"), text(task, "session_id"));
    let (id, agent) = (text(task, "task_id"), text(task, "agent"));
    format!("{at}  {session}/{id}  {agent}  {}{turns}{about}", tell::state_and_why(task))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn snapshot(tasks: &[(&str, &str, u64)]) -> Snapshot {
        let task = |(id, state, turns): &(&str, &str, u64)| json!({"id": id, "created_at": id, "state": state, "turns_used": turns});
        Snapshot { stats: Value::Null, tasks: tasks.iter().map(task).collect() }
    }

    fn ids(news: &[&Value]) -> Vec<String> {
        news.iter().map(|task| text(task, "id")).collect()
    }

    #[test]
    fn every_change_is_told_once_and_the_past_is_not() {
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
    fn a_line_says_who_and_what() {
        let task = json!({"session_id": "nightly", "task_id": "t_03", "agent": "clerk", "state": "failed", "failure": "model",
            "turns_used": 1, "error": "Model API error: 401", "last_activity_at": "2026-07-01T00:00:00Z"});
        assert_eq!(
            line(&task),
            "2026-07-01T00:00:00Z  nightly/t_03  clerk  failed (model), 1 turn  Model API error: 401"
        );
    }
}
