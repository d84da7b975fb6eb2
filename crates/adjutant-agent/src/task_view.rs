use chrono::{DateTime, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::ToSchema;

use crate::{
    FailureKind, OnWorkerLoss, Outcome, OutcomeParts, Retrying, Spent, TaskId, TaskNumber,
    TaskState, timestamp,
};

/// A task as every reader sees it: status, waits, parents, the history and the dashboard.
///
/// It is read from a row of the SQL view `task_status`. It serializes to the fields that lists and
/// details of the history share; the dialects render it in their own words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TaskView {
    pub id: TaskId,
    #[schema(rename = "task_id", value_type = String)]
    #[serde(
        rename(serialize = "task_id"),
        serialize_with = "as_text",
        deserialize_with = "number"
    )]
    pub number: TaskNumber,
    /// The task that spawned it; none if an orchestrator did.
    pub parent: Option<TaskId>,
    pub agent: String,
    pub label: Option<String>,
    pub state: TaskState,
    pub failure: Option<FailureKind>,
    pub error: Option<String>,
    pub turns_used: i32,
    /// Model answers of every kind; `turns_used` counts the turns of its loop.
    #[schema(ignore)]
    #[serde(skip_serializing)]
    pub answers: i32,
    pub input_tokens: i64,
    pub output_tokens: i64,
    #[schema(rename = "cost_usd", value_type = f64)]
    #[serde(rename(serialize = "cost_usd"), serialize_with = "as_usd")]
    pub cost_nanousd: i64,
    pub attempt: i32,
    #[schema(ignore)]
    #[serde(skip_serializing)]
    pub on_worker_loss: OnWorkerLoss,
    #[serde(serialize_with = "timestamp::serialize")]
    pub created_at: DateTime<Utc>,
    #[serde(serialize_with = "timestamp::serialize_option")]
    pub started_at: Option<DateTime<Utc>>,
    #[serde(serialize_with = "timestamp::serialize")]
    pub last_activity_at: DateTime<Utc>,
    #[serde(serialize_with = "timestamp::serialize_option")]
    pub finished_at: Option<DateTime<Utc>>,
    #[serde(serialize_with = "timestamp::serialize_option")]
    pub collected_at: Option<DateTime<Utc>>,
    /// How much longer a queued task is delayed.
    #[schema(ignore)]
    #[serde(skip_serializing)]
    pub due_in_ms: Option<i64>,
    /// While its model call is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retrying: Option<Retrying>,
    /// How many of the tenant's tasks are before a queued one, up to 1000. Read by `Store::status`
    /// and `Store::task_details` only.
    #[schema(ignore)]
    #[serde(default, skip_serializing)]
    pub queue_position: Option<i32>,
    /// What holds an unfinished task back. Read by `Store::status`, by lists and records of the
    /// history; none elsewhere.
    #[serde(default)]
    pub why: Option<Why>,
    /// Read by `Store::task_details` and by lists for clients that do not collect; none elsewhere.
    #[schema(ignore)]
    #[serde(default, skip_serializing)]
    pub details: Option<TaskDetails>,
}

/// The columns of a task that can be large, or are part of its configuration.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct TaskDetails {
    /// Lists leave it out.
    #[serde(default)]
    pub result: Option<String>,
    pub summary: Option<String>,
    /// The longest that the task may run.
    pub timeout_s: Option<f64>,
}

/// What holds an unfinished task back: the one reason that has to go away first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Why {
    /// `retrying`, `lease`, `dependency`, `archived`, `budget`, `children`, `rate`, `circuit`,
    /// `gate`, `delay`, `no_worker`, `missing_model`, `missing_tools`, `cap`, `window`, `tenant`,
    /// `workers` or `next`. Later releases may add codes.
    pub code: String,
    /// The reason as a sentence.
    pub text: String,
    /// Until when it waits for this at the longest, if that is known.
    #[schema(nullable = false)]
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "timestamp::serialize_option"
    )]
    pub until: Option<DateTime<Utc>>,
}

impl TaskView {
    pub fn spent(&self) -> Spent {
        Spent {
            input_tokens: self.input_tokens,
            output_tokens: self.output_tokens,
            cost_nanousd: self.cost_nanousd,
        }
    }

    /// The outcome that is made of the state and these texts; none for a task that has not ended.
    pub fn outcome(
        &self,
        result: Option<String>,
        summary: Option<String>,
        partial_result: Option<String>,
    ) -> Option<Outcome> {
        let (failure, error) = (self.failure, self.error.clone());
        Outcome::of(self.state, OutcomeParts { result, summary, failure, error, partial_result })
    }
}

fn as_text<S: Serializer>(number: &TaskNumber, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(number)
}

fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<TaskNumber, D::Error> {
    i32::deserialize(deserializer).map(TaskNumber)
}

fn as_usd<S: Serializer>(nanousd: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    crate::usd(*nanousd).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_row_is_read_and_shown_with_the_fields_of_the_history() {
        let row = json!({
            "session": 7, "tenant": "a", "pool": "default", "id": TaskId::new(), "number": 3, "parent": null,
            "agent": "helper", "label": null, "state": "completed", "failure": null, "error": null,
            "turns_used": 1, "answers": 2, "input_tokens": 5, "output_tokens": 6, "cost_nanousd": 1_500_000_000_i64,
            "attempt": 1, "on_worker_loss": "resume", "created_at": "2026-01-02T03:04:05.678912+00:00",
            "started_at": null, "last_activity_at": "2026-01-02T03:04:05+00:00", "finished_at": null,
            "collected_at": null, "due_in_ms": null,
        });
        let task: TaskView = serde_json::from_value(row).unwrap();
        assert_eq!((task.number, task.details.as_ref()), (TaskNumber(3), None));
        let shown = serde_json::to_value(&task).unwrap();
        assert_eq!(
            [&shown["task_id"], &shown["cost_usd"], &shown["created_at"]],
            [&json!("t_03"), &json!(1.5), &json!("2026-01-02T03:04:05.678Z")]
        );
        assert_eq!(shown.get("answers").or(shown.get("details")), None);
    }
}
