use adjutant_agent::{Outcome, TaskNumber, TaskView};
use serde_json::{Map, Value, json};

use crate::spec::render::put_outcome;
use crate::spec::task_fields;

/// The answer of `spawn`: the same whenever the call is repeated, whatever the child has done
/// since.
pub fn spawned_child(number: TaskNumber, agent: &str, label: Option<&str>) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("task_id".to_owned(), json!(number.to_string()));
    fields.insert("agent".to_owned(), json!(agent));
    fields.insert("status".to_owned(), json!("running"));
    fields.extend(label.map(|label| ("label".to_owned(), json!(label))));
    fields
}

/// The answer of `status`, without the result.
pub fn child_status(child: &TaskView) -> Map<String, Value> {
    let mut fields = task_fields::summary(child);
    if !child.state.is_terminal() {
        fields.insert("phase".to_owned(), json!(child.state));
    }
    fields
}

/// The answer of `collect`.
pub fn child_outcome(child: &TaskView, outcome: &Outcome) -> Map<String, Value> {
    let mut fields = child_status(child);
    put_outcome(&mut fields, outcome);
    fields
}

#[cfg(test)]
pub(super) fn child(number: i32, state: adjutant_agent::TaskState) -> TaskView {
    let failed = state == adjutant_agent::TaskState::Failed;
    let row = json!({
        "id": adjutant_agent::TaskId::new(), "number": number, "agent": "helper", "state": state,
        "failure": failed.then_some("tool"), "error": failed.then_some("broken"), "turns_used": 2,
        "answers": 2, "input_tokens": 0, "output_tokens": 0, "cost_nanousd": 0, "attempt": 1,
        "on_worker_loss": "resume", "created_at": "2026-01-01T00:00:00Z",
        "last_activity_at": "2026-01-01T00:00:00Z",
    });
    serde_json::from_value(row).unwrap()
}

#[cfg(test)]
mod tests {
    use adjutant_agent::{FailureKind, TaskState};

    use super::*;

    #[test]
    fn a_child_is_shown_in_the_words_of_the_source() {
        let shown =
            |state, outcome: Outcome| Value::Object(child_outcome(&child(2, state), &outcome));
        assert_eq!(
            shown(
                TaskState::Completed,
                Outcome::Completed { result: "Found.".to_owned(), summary: None }
            ),
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
            Value::Object(child_status(&child(2, TaskState::Waiting))),
            json!({"task_id": "t_02", "agent": "helper", "status": "running", "phase": "waiting", "turns_used": 2})
        );
    }

    #[test]
    fn a_long_result_is_cut_as_an_orchestrators_is() {
        let result = "é".repeat(4_004);
        let shown = child_outcome(
            &child(2, TaskState::Completed),
            &Outcome::Completed { result, summary: None },
        );
        assert_eq!(shown["result_chars"], 4_004);
        assert!(shown["result"].as_str().is_some_and(|text| text.ends_with("1000 token limit]")));
    }
}
