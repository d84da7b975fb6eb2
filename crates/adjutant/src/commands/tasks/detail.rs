//! The details of one task.

use serde_json::Value;

use crate::table::{items, text};

/// Fields that are printed as blocks of text.
const BLOCKS: [&str; 5] = ["assignment", "result", "partial_result", "summary", "error"];

const DELIVERIES: &str = "deliveries";
const WHY: &str = "why";

/// One line for each field, followed by the texts.
pub fn task(task: &Value) -> String {
    let facts = task.as_object().into_iter().flatten().filter(|(name, value)| {
        let nothing = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
        !nothing
            && !BLOCKS.contains(&name.as_str())
            && name.as_str() != DELIVERIES
            && name.as_str() != WHY
    });
    let fact = |(name, value): (&String, &Value)| match name.as_str() {
        "retrying" => format!("{name:<18} {}", text(value, "text")),
        _ => format!("{name:<18} {}", text(task, name)),
    };
    let mut lines: Vec<String> = facts.map(fact).collect();
    let why = task.get(WHY).map_or_else(String::new, why_line);
    if !why.is_empty() {
        lines.push(format!("{WHY:<18} {why}"));
    }
    for name in BLOCKS {
        let text = text(task, name);
        if !text.is_empty() {
            lines.push(format!("\n{}\n{}", name.replace('_', " "), indented(&text)));
        }
    }
    let deliveries = items(task, DELIVERIES);
    if !deliveries.is_empty() {
        let shown: Vec<String> = deliveries.iter().map(delivery_line).collect();
        lines.push(format!("\n{DELIVERIES}\n{}", shown.join("\n")));
    }
    lines.join("\n")
}

/// The code, the sentence and the time of what a task waits for.
fn why_line(why: &Value) -> String {
    let [code, sentence, until] = ["code", "text", "until"].map(|name| text(why, name));
    match (code.is_empty(), until.is_empty()) {
        (true, _) => String::new(),
        (false, true) => format!("{code}: {sentence}"),
        (false, false) => format!("{code}: {sentence}, until {until}"),
    }
}

/// The state of a webhook delivery.
fn delivery_line(delivery: &Value) -> String {
    let [id, event, state, tries] =
        ["id", "event", "state", "tries"].map(|name| text(delivery, name));
    let mut line = format!("  {id} {event}: {state}, tries {tries}");
    for (what, name) in
        [("status", "last_status"), ("error", "last_error"), ("next", "next_try_at")]
    {
        let text = text(delivery, name);
        if !text.is_empty() {
            line.push_str(&format!(", {what} {text}"));
        }
    }
    line
}

/// The model's answer and the tool calls of each turn.
pub fn turns(answer: &Value) -> String {
    let turns = answer.as_array().map_or_else(|| items(answer, "turns"), Vec::as_slice);
    let one = |(index, turn): (usize, &Value)| {
        let number = turn.get("turn").or(turn.get("number")).and_then(Value::as_u64);
        let number = number.map_or_else(|| (index + 1).to_string(), |number| number.to_string());
        let text = serde_json::to_string_pretty(turn).unwrap_or_default();
        format!("\nturn {number}\n{}", indented(&text))
    };
    turns.iter().enumerate().map(one).collect::<Vec<_>>().join("\n")
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_task_is_shown_without_its_empty_fields() {
        let task = json!({"id": "0198", "task_id": "t_01", "label": null, "metadata": {}, "turns_used": 2,
        "retrying": {"text": "model `main` at host: 503, try 2 of 8, next now", "tries": 2},
        "assignment": "Count.\nThen say it.", "result": "42", "error": null,
        "why": {"code": "delay", "text": "It is delayed", "until": "2026-07-01T00:00:00.000Z"}, "deliveries": [
            {"id": "0199", "event": "task.completed", "state": "pending", "tries": 1, "last_status": 500,
             "last_error": "The receiver answered 500.", "next_try_at": "2026-07-01T00:00:00.000Z"},
        ]});
        assert_eq!(
            self::task(&task),
            "id                 0198\nretrying           model `main` at host: 503, try 2 of 8, next now\n\
             task_id            t_01\nturns_used         2\n\
             why                delay: It is delayed, until 2026-07-01T00:00:00.000Z\n\nassignment\n  Count.\n  Then say it.\n\nresult\n  42\n\n\
             deliveries\n  0199 task.completed: pending, tries 1, status 500, error The receiver answered 500., next 2026-07-01T00:00:00.000Z"
        );
    }
}
