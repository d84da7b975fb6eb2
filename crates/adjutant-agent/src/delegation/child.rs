use serde_json::{Map, Value, json};

use crate::dialects::spec;
use crate::{FailureKind, Outcome, SPEC_VIEW, Spent, TaskId, TaskNumber, TaskState};

/// How a child stands, as its parent may know it; everything but its texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Child {
    pub id: TaskId,
    pub number: TaskNumber,
    pub agent: String,
    pub label: Option<String>,
    pub state: TaskState,
    pub failure: Option<FailureKind>,
    pub error: Option<String>,
    pub turns_used: i32,
    /// Model answers: its turns, and what was asked besides.
    pub answers: i32,
    pub spent: Spent,
    /// Its outcome has been handed over, and nobody asks for it any more.
    pub collected: bool,
}

impl Child {
    /// As `spawn` answers: the same whenever the call is made again, whatever the child has done since.
    pub fn spawned(number: TaskNumber, agent: &str, label: Option<&str>) -> Map<String, Value> {
        let mut shown = Map::new();
        shown.insert("task_id".to_owned(), json!(number.to_string()));
        shown.insert("agent".to_owned(), json!(agent));
        shown.insert("status".to_owned(), json!("running"));
        shown.extend(label.map(|label| ("label".to_owned(), json!(label))));
        shown
    }

    /// As `status` answers: never its result.
    pub fn status(&self) -> Map<String, Value> {
        let mut shown = Self::spawned(self.number, &self.agent, self.label.as_deref());
        shown.insert("status".to_owned(), json!(spec::word(self.state)));
        if !self.state.is_terminal() {
            shown.insert("phase".to_owned(), json!(self.state));
        }
        shown.insert("turns_used".to_owned(), json!(self.turns_used));
        let error = spec::error(self.state, self.error.as_deref());
        shown.extend(error.map(|error| ("error".to_owned(), json!(error))));
        shown.extend(self.failure.map(|failure| ("failure".to_owned(), json!(failure))));
        shown
    }

    /// As `collect` answers, with what came of it.
    pub fn outcome(&self, outcome: &Outcome) -> Map<String, Value> {
        let mut shown = self.status();
        let (name, text) = match outcome {
            Outcome::Completed { result, summary } => {
                let summary = summary.as_ref().map(|summary| json!(SPEC_VIEW.of(summary).text));
                shown.extend(summary.map(|summary| ("summary".to_owned(), summary)));
                ("result", Some(result))
            }
            Outcome::Failed { partial_result, .. } | Outcome::Cancelled { partial_result } => {
                ("partial_result", partial_result.as_ref())
            }
        };
        if let Some(text) = text {
            spec::put_text(&mut shown, name, text);
        }
        shown
    }
}

#[cfg(test)]
pub(super) fn child(number: i32, state: TaskState) -> Child {
    Child {
        id: TaskId::new(),
        number: TaskNumber(number),
        agent: "helper".to_owned(),
        label: None,
        state,
        failure: (state == TaskState::Failed).then_some(FailureKind::Tool),
        error: (state == TaskState::Failed).then(|| "broken".to_owned()),
        turns_used: 2,
        answers: 2,
        spent: Spent::default(),
        collected: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_shown_in_the_words_of_the_source() {
        let shown = |state, outcome: Outcome| Value::Object(child(2, state).outcome(&outcome));
        assert_eq!(
            shown(TaskState::Completed, Outcome::Completed { result: "Found.".to_owned(), summary: None }),
            json!({"task_id": "t_02", "agent": "helper", "status": "completed", "turns_used": 2, "result": "Found."})
        );
        let failed = Outcome::Failed {
            failure: FailureKind::Tool,
            error: "broken".to_owned(),
            partial_result: Some("So far.".to_owned()),
        };
        assert_eq!(
            shown(TaskState::Failed, failed),
            json!({"task_id": "t_02", "agent": "helper", "status": "failed", "turns_used": 2, "error": "broken",
                "failure": "tool", "partial_result": "So far."})
        );
        assert_eq!(
            shown(TaskState::Cancelled, Outcome::Cancelled { partial_result: None }),
            json!({"task_id": "t_02", "agent": "helper", "status": "failed", "turns_used": 2, "error": "Task cancelled"})
        );
        assert_eq!(
            Value::Object(child(2, TaskState::Waiting).status()),
            json!({"task_id": "t_02", "agent": "helper", "status": "running", "phase": "waiting", "turns_used": 2})
        );
    }

    #[test]
    fn a_long_result_is_cut_as_an_orchestrators_is() {
        let result = "é".repeat(4_004);
        let shown = child(2, TaskState::Completed).outcome(&Outcome::Completed { result, summary: None });
        assert_eq!(shown["result_chars"], 4_004);
        assert!(shown["result"].as_str().is_some_and(|text| text.ends_with("1000 token limit]")));
    }
}
