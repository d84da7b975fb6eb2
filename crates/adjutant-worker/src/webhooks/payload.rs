//! The payload of a webhook. It depends on the task alone, so that every attempt sends the same.

use adjutant_agent::{SPEC_VIEW, TaskState, usd};
use adjutant_store::Delivery;
use adjutant_store::moment::utc;
use serde_json::{Map, Value, json};

/// The body of a delivery.
pub(super) fn body(delivery: &Delivery) -> String {
    let task = &delivery.task;
    let mut data = Map::new();
    let mut put = |name: &str, value: Value| drop(data.insert(name.to_owned(), value));
    put("session_id", json!(task.session_id));
    put("task_id", json!(task.number.to_string()));
    put("id", json!(task.id));
    put("agent", json!(task.agent));
    put("label", json!(task.label));
    put("metadata", task.metadata.clone());
    put("state", json!(task.state));
    put("failure", json!(task.failure));
    put("error", json!(task.error));
    if let Some(said) = &task.text {
        let shown = SPEC_VIEW.of(said);
        put(
            if task.state == TaskState::Completed { "result" } else { "partial_result" },
            json!(shown.text),
        );
        put("truncated", json!(shown.truncated));
        put("result_chars", json!(task.text_chars));
    }
    put("turns_used", json!(task.turns_used));
    put("input_tokens", json!(task.input_tokens));
    put("output_tokens", json!(task.output_tokens));
    put("cost_usd", json!(usd(task.cost_nanousd)));
    put("created_at", json!(utc(task.created_at)));
    put("finished_at", json!(utc(task.finished_at)));
    json!({
        "type": delivery.event, "event_id": delivery.id, "timestamp": utc(task.finished_at), "data": data,
    })
    .to_string()
}
