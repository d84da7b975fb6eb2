//! The fields of a task in answers: the source's words for its state, and our own fields.

use super::render::{error, word};
use adjutant_agent::timestamp::utc;
use adjutant_agent::{FailureKind, Spent, TaskState, TaskView, usd};
use adjutant_store::Spawned;
use serde_json::{Map, Value, json};

use super::TaskOptions;

/// The longest pause between two polls that an answer recommends.
const LONGEST_HINT_MS: i64 = 3_600_000;

/// The answer of `spawn`.
pub(super) fn spawned(spawned: &Spawned, agent: &str, options: &TaskOptions) -> Map<String, Value> {
    let mut fields = Fields::default();
    fields.put("task_id", spawned.number.to_string());
    fields.put("id", spawned.id.to_string());
    fields.put("agent", agent);
    fields.put("status", word(spawned.state));
    fields.put_if("label", options.label.as_deref());
    let due_in_ms = options.delay.and_then(|delay| delay.as_millis().try_into().ok());
    fields.phase(spawned.state, spawned.queue_position, due_in_ms);
    fields.0
}

/// The answer of `status`, without the result.
pub(super) fn status(view: &TaskView) -> Map<String, Value> {
    let mut fields = Fields(task(view));
    fields.phase(view.state, view.queue_position, view.due_in_ms);
    fields.put_if("why", view.why.as_ref().map(|why| json!(why)));
    fields.put_if("retrying", retrying(view));
    fields.put("created_at", utc(view.created_at));
    fields.put("last_activity_at", utc(view.last_activity_at));
    fields.put_if("completed_at", view.finished_at.map(utc));
    fields.0
}

/// The fields of every answer to an orchestrator about one task.
pub(super) fn task(view: &TaskView) -> Map<String, Value> {
    let mut fields = Fields(summary(view));
    fields.put("id", view.id.to_string());
    fields.spent(view.spent());
    fields.0
}

/// The fields that orchestrators and agents that delegate are both shown. A task has an error
/// exactly when it failed.
pub(super) fn summary(view: &TaskView) -> Map<String, Value> {
    let mut fields = Fields::default();
    fields.put("task_id", view.number.to_string());
    fields.put("agent", view.agent.as_str());
    fields.put("status", word(view.state));
    fields.put("turns_used", view.turns_used);
    fields.put_if("label", view.label.as_deref());
    fields.put_if("error", error(view.state, view.error.as_deref()));
    fields.put_if("failure", view.failure.map(FailureKind::as_str));
    fields.0
}

/// What the task's model call is waiting for, while it is tried again.
fn retrying(view: &TaskView) -> Option<Value> {
    view.retrying.as_ref().and_then(|retrying| serde_json::to_value(retrying).ok())
}

#[derive(Default)]
struct Fields(Map<String, Value>);

impl Fields {
    fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.to_owned(), value.into());
    }

    fn put_if(&mut self, name: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.put(name, value);
        }
    }

    /// The activity of a task that has not ended, and when to poll again.
    fn phase(&mut self, state: TaskState, queue_position: Option<i32>, due_in_ms: Option<i64>) {
        let after_ms: i64 = match state {
            // Before it is due, only a cancel can change it.
            TaskState::Queued if due_in_ms.is_some_and(|due| due > 0) => {
                due_in_ms.unwrap_or(0).saturating_add(1_000).min(LONGEST_HINT_MS)
            }
            TaskState::Queued => 1_000 + 500 * i64::from(queue_position.unwrap_or(0).clamp(0, 18)),
            TaskState::Running => 2_000,
            TaskState::Waiting => 5_000,
            TaskState::Completed | TaskState::Failed | TaskState::Cancelled => return,
        };
        self.put("phase", state.as_str());
        self.put_if("queue_position", queue_position);
        self.put("poll_after_ms", after_ms);
    }

    fn spent(&mut self, spent: Spent) {
        self.put("input_tokens", spent.input_tokens);
        self.put("output_tokens", spent.output_tokens);
        self.put_if("cost_usd", usd(spent.cost_nanousd));
    }
}
