//! How tasks are shown: the source's words for their states, and our own fields beside them.

use adjutant_agent::dialects::spec::{error, word};
use adjutant_agent::{FailureKind, Spent, TaskOptions, TaskState, usd};
use adjutant_store::moment::utc;
use adjutant_store::{Progress, Spawned, Status};
use serde_json::{Map, Value};

/// Who is put off for longer is asked to look now and then.
const LONGEST_HINT_MS: i64 = 3_600_000;

/// A task that was made, as `spawn` answers.
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

/// How a task stands, as `status` answers: never its result.
pub(super) fn progress(progress: &Progress) -> Map<String, Value> {
    let status = &progress.status;
    let mut fields = Fields(task(status));
    fields.phase(status.state, progress.queue_position, progress.due_in_ms);
    fields.put("created_at", utc(status.created_at));
    fields.put("last_activity_at", utc(status.last_activity_at));
    fields.put_if("completed_at", status.finished_at.map(utc));
    fields.0
}

/// What every answer about one task has. The error is there exactly when it failed.
pub(super) fn task(status: &Status) -> Map<String, Value> {
    let mut fields = Fields::default();
    fields.put("task_id", status.number.to_string());
    fields.put("id", status.id.to_string());
    fields.put("agent", status.agent.as_str());
    fields.put("status", word(status.state));
    fields.put("turns_used", status.turns_used);
    fields.put_if("label", status.label.as_deref());
    fields.put_if("error", error(status.state, status.error.as_deref()));
    fields.put_if("failure", status.failure.map(FailureKind::as_str));
    fields.spent(status.spent);
    fields.0
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

    /// What a task that has not ended is doing, and when it is worth asking again.
    fn phase(&mut self, state: TaskState, queue_position: Option<i32>, due_in_ms: Option<i64>) {
        let after_ms: i64 = match state {
            // Nothing happens before it is due, unless somebody cancels it.
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
