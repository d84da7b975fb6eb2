//! The bodies of answers: what the store and the tools give, field by field. `make test-api` holds real answers to them.

use adjutant_agent::{FailureKind, TaskState};
use serde_json::{Map, Value, json};

use super::webhooks::STATES;
use super::{TOOL_PATH, dialects};

/// The name of a body, the fields that it always has, and those that it has if there is something to say. What is in a field
/// is a word that [`schema`] knows, with `?` behind it if it may be null and `[]` if it is a list.
type Body = (&'static str, &'static str, &'static str);

macro_rules! entry {
    () => {
        "id:uuid session_id:text task_id:text agent:text agent_version:whole label:text? model:text? state:state \
         failure:failure? error:text? turns_used:whole input_tokens:whole output_tokens:whole cost_usd:number attempt:whole \
         parent:uuid? retry_of:uuid? continues:uuid? created_at:time started_at:time? last_activity_at:time \
         finished_at:time? collected_at:time? "
    };
}
macro_rules! sums {
    () => {
        "tasks:whole completed:whole failed:whole turns:whole input_tokens:whole output_tokens:whole cost_usd:number "
    };
}
macro_rules! written {
    () => {
        "key:text written_by:text written_at:time version:whole "
    };
}
macro_rules! snapshot {
    () => {
        "label:text version:whole taken_by:text taken_at:time total_size_tokens:whole "
    };
}

const HISTORY: &[Body] = &[
    ("TaskPage", "tasks:TaskEntry[] next_cursor:text?", ""),
    ("TaskEntry", entry!(), ""),
    (
        "Task",
        concat!(
            entry!(),
            "root:uuid depth:whole metadata:object config:object timeout_s:number? pool:text priority:whole \
             not_before:time? waiting_for:text? depends_on:text[] queue_position:whole? assignment:text result:text? \
             summary:text? partial_result:text? traceparent:text? attempts:Attempt[] webhook:OwnWebhook? \
             deliveries:Delivery[]"
        ),
        "",
    ),
    (
        "Attempt",
        "attempt:whole worker:uuid worker_name:text? outcome:text? turns:whole claimed_at:time ended_at:time?",
        "",
    ),
    ("OwnWebhook", "url:text events:text[]", ""),
    ("DeliveryPage", "deliveries:Delivery[] next_cursor:uuid?", ""),
    (
        "Delivery",
        "id:uuid session_id:text task_id:text task:uuid event:text url:text state:delivery tries:whole last_status:whole? \
         last_error:text? next_try_at:time? created_at:time tried_at:time? delivered_at:time?",
        "",
    ),
    ("WebhookSecrets", "secrets:WebhookSecret[]", ""),
    ("WebhookSecret", "id:uuid created_at:time expires_at:time?", ""),
    ("MadeWebhookSecret", "id:uuid created_at:time expires_at:time?", "secret:text"),
    ("TurnPage", "turns:Turn[] next_cursor:text?", ""),
    (
        "Turn",
        "number:whole attempt:whole kind:text model:text? text:text? tool_calls:ToolUse[] input_tokens:whole \
         output_tokens:whole cache_read_tokens:whole cache_write_tokens:whole cost_usd:number duration_ms:whole at:time",
        "",
    ),
    ("ToolUse", "id:text name:text arguments:any result:ToolResult?", ""),
    ("ToolResult", "content:text is_error:flag duration_ms:whole at:time", ""),
    (
        "Stats",
        concat!(
            sums!(),
            "since:time? states:counts failures:counts agents:sums models:sums queue:Queue slots:Slots workers_alive:whole"
        ),
        "",
    ),
    ("Sums", sums!(), ""),
    ("Queue", "queued:whole oldest_s:number?", ""),
    ("Slots", "used:whole cap:whole", ""),
];

const PHASE: &str = "label:text phase:state queue_position:whole poll_after_ms:whole";

/// What `subagent` answers: those that are not parts of others.
const OF_SUBAGENT: [&str; 7] =
    ["Agents", "Defined", "Spawned", "BatchSpawned", "TaskShown", "Waited", "ResultPage"];

const SUBAGENT_BODIES: &[Body] = &[
    ("Agents", "agents:Agent[]", ""),
    ("Agent", "name:text description:text model:text max_turns:whole tools:text[] version:whole", ""),
    ("Defined", "defined:text description:text version:whole", ""),
    ("Spawned", "task_id:text id:uuid agent:text status:status", PHASE),
    ("BatchSpawned", "tasks:BatchItemSpawned[]", ""),
    (
        "BatchItemSpawned",
        "task_id:text id:uuid agent:text status:status",
        "name:text label:text phase:state queue_position:whole poll_after_ms:whole",
    ),
    (
        "TaskShown",
        "task_id:text id:uuid agent:text status:status turns_used:whole input_tokens:whole output_tokens:whole",
        "label:text phase:state queue_position:whole poll_after_ms:whole error:text failure:failure cost_usd:number \
         created_at:time last_activity_at:time completed_at:time cancelled:flag result:text partial_result:text? \
         summary:text truncated:flag result_chars:whole",
    ),
    ("Waited", "tasks:TaskShown[] timed_out:flag", ""),
    ("ResultPage", "task_id:text offset:whole text:text next_offset:whole? result_chars:whole", ""),
];

const OF_SHARED_CONTEXT: [&str; 8] =
    ["Keys", "Note", "Written", "Deleted", "Notes", "NoteHistory", "Snapshot", "SnapshotTaken"];

const CONTEXT_BODIES: &[Body] = &[
    ("Keys", "keys:NoteListed[] total_size_tokens:whole", ""),
    ("NoteListed", concat!(written!(), "value_size_tokens:whole"), ""),
    ("Note", concat!(written!(), "value:text value_size_tokens:whole"), ""),
    ("Written", written!(), "warning:text"),
    ("Deleted", "deleted:text previous_version:whole", ""),
    ("Notes", "entries:Note[] missing:text[]", ""),
    ("NoteHistory", "key:text history:NoteChange[] more:flag", ""),
    (
        "NoteChange",
        "version:whole written_by:text written_at:time",
        "deleted:flag value:text value_size_tokens:whole",
    ),
    ("Snapshot", concat!(snapshot!(), "entries:Note[]"), ""),
    ("SnapshotTaken", concat!(snapshot!(), "key_count:whole"), ""),
];

/// All of them, by their names.
pub(super) fn schemas() -> Map<String, Value> {
    let bodies = [HISTORY, SUBAGENT_BODIES, CONTEXT_BODIES].into_iter().flatten();
    bodies.map(|(name, always, sometimes)| ((*name).to_owned(), object(always, sometimes))).collect()
}

/// What a route answers, and with which status, where the macros do not say it.
pub(super) fn of(path: &str, method: &str) -> Option<(&'static str, Value)> {
    let name = match path {
        "/v1/webhooks/secrets" if method == "post" => return Some(("201", reference("MadeWebhookSecret"))),
        "/v1/webhooks/secrets" => "WebhookSecrets",
        "/v1/webhooks/deliveries" => "DeliveryPage",
        "/v1/webhooks/deliveries/{id}/redeliver" => "Delivery",
        "/v1/tasks" => "TaskPage",
        "/v1/tasks/{id}" | "/v1/tasks/{id}/cancel" | "/v1/tasks/{id}/retry" => "Task",
        "/v1/tasks/{id}/turns" => "TurnPage",
        "/v1/stats" => "Stats",
        _ => {
            let tool = path.strip_prefix(TOOL_PATH.trim_end_matches("{tool}"))?;
            return of_tool(path, tool).map(|answer| ("200", answer));
        }
    };
    Some(("200", reference(name)))
}

/// Where an answer has the id of a task, if it always has one.
pub(super) fn task_in(path: &str) -> Option<&'static str> {
    match path {
        "/v1/tasks/{id}" | "/v1/tasks/{id}/cancel" | "/v1/tasks/{id}/retry" => Some("$response.body#/id"),
        _ => None,
    }
}

fn of_tool(path: &str, tool: &str) -> Option<Value> {
    let names: &[&str] = match tool {
        adjutant_agent::SUBAGENT => &OF_SUBAGENT,
        adjutant_agent::SHARED_CONTEXT => &OF_SHARED_CONTEXT,
        _ => &[],
    };
    let answers = names.iter().map(|name| reference(name)).chain(dialects::answers(path));
    Some(json!({"anyOf": answers.collect::<Vec<_>>()}))
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// Fields that come later do not break a reader: nothing is said of those that are not here.
fn object(always: &str, sometimes: &str) -> Value {
    let fields =
        [always, sometimes].map(|words| words.split_whitespace().filter_map(|word| word.split_once(':')));
    let required: Vec<&str> = fields[0].clone().map(|(name, _)| name).collect();
    let properties: Map<String, Value> =
        fields.into_iter().flatten().map(|(name, word)| (name.to_owned(), schema(word))).collect();
    json!({"type": "object", "required": required, "properties": properties})
}

fn schema(word: &str) -> Value {
    if let Some(item) = word.strip_suffix("[]") {
        return json!({"type": "array", "items": schema(item)});
    }
    if let Some(word) = word.strip_suffix('?') {
        return json!({"anyOf": [schema(word), {"type": "null"}]});
    }
    match word {
        "any" => json!({}),
        "counts" => json!({"type": "object", "additionalProperties": {"type": "integer"}}),
        "delivery" => json!({"type": "string", "enum": STATES}),
        "failure" => json!({"type": "string", "enum": FailureKind::ALL}),
        "flag" => json!({"type": "boolean"}),
        "number" => json!({"type": "number"}),
        "object" => json!({"type": "object"}),
        "state" => json!({"type": "string", "enum": TaskState::ALL}),
        "status" => json!({"type": "string", "enum": ["running", "completed", "failed"]}),
        "sums" => json!({"type": "object", "additionalProperties": reference("Sums")}),
        "text" => json!({"type": "string"}),
        "time" => json!({"type": "string", "format": "date-time", "pattern": "\\.[0-9]{3}Z$"}),
        "uuid" => json!({"type": "string", "format": "uuid"}),
        "whole" => json!({"type": "integer"}),
        name => reference(name),
    }
}
