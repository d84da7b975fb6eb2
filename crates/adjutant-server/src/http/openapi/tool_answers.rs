//! The answers of the tools `subagent` and `shared_context`, for `/openapi.json` and for the output
//! schemas of MCP. A doc comment is the field's description in both.

#![expect(
    dead_code,
    reason = "the answers are built as JSON; `make test-api` checks them against these types"
)]

use std::collections::BTreeMap;

use adjutant_agent::{FailureKind, Retrying, SHARED_CONTEXT, SUBAGENT, TaskState, Why};
use chrono::{DateTime, Utc};
use serde_json::{Map, Value};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{OpenApi, ToSchema};
use uuid::Uuid;

/// The answer types of a tool, by the names of their schemas; parts of them are not listed.
pub(crate) fn answers_of(tool: &str) -> &'static [&'static str] {
    match tool {
        SUBAGENT => {
            &["Agents", "Defined", "Spawned", "BatchSpawned", "TaskShown", "Waited", "ResultPage"]
        }
        SHARED_CONTEXT => &[
            "Keys",
            "Note",
            "Written",
            "Deleted",
            "Notes",
            "NoteHistory",
            "Snapshot",
            "SnapshotTaken",
        ],
        _ => &[],
    }
}

/// The schemas of all answers and of their parts.
pub(crate) fn schemas() -> BTreeMap<String, RefOr<Schema>> {
    ToolAnswers::openapi().components.map(|parts| parts.schemas).unwrap_or_default()
}

/// The fields that an answer of the tool may have, as schemas without references: no field is in
/// the answers of all actions.
pub(crate) fn properties_of(tool: &str) -> Map<String, Value> {
    let Ok(Value::Object(schemas)) = serde_json::to_value(schemas()) else { return Map::new() };
    let mut properties = Map::new();
    for name in answers_of(tool) {
        let answer = without_references(&schemas[*name], &schemas);
        add_properties(&mut properties, &answer["properties"]);
    }
    properties
}

fn without_references(schema: &Value, schemas: &Map<String, Value>) -> Value {
    match schema {
        Value::Object(fields) => {
            let name = fields.get("$ref").and_then(Value::as_str);
            let name = name.and_then(|path| path.rsplit('/').next());
            if let Some(target) = name.and_then(|name| schemas.get(name)) {
                let mut target = without_references(target, schemas);
                if let Some(description) = fields.get("description") {
                    target["description"] = description.clone();
                }
                return target;
            }
            let inlined = fields.iter().filter(|(name, _)| *name != "required");
            inlined
                .map(|(name, inner)| (name.clone(), without_references(inner, schemas)))
                .collect()
        }
        Value::Array(items) => items.iter().map(|item| without_references(item, schemas)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => schema.clone(),
    }
}

/// Lists of different items become one list whose items may have the fields of each. The first
/// description of a field is that of all.
fn add_properties(properties: &mut Map<String, Value>, more: &Value) {
    for (name, schema) in more.as_object().into_iter().flatten() {
        let Some(known) = properties.get_mut(name) else {
            properties.insert(name.clone(), schema.clone());
            continue;
        };
        if known.get("description").is_none()
            && let Some(description) = schema.get("description")
        {
            known["description"] = description.clone();
        }
        let items = known.pointer_mut("/items/properties").and_then(Value::as_object_mut);
        if let Some(items) = items {
            add_properties(items, &schema["items"]["properties"]);
        }
    }
}

#[derive(OpenApi)]
#[openapi(components(schemas(
    Agents,
    Defined,
    Spawned,
    BatchSpawned,
    TaskShown,
    Waited,
    ResultPage,
    Keys,
    Note,
    Written,
    Deleted,
    Notes,
    NoteHistory,
    Snapshot,
    SnapshotTaken,
)))]
struct ToolAnswers;

/// The state of a task in the words of the Subagent Tool Specification
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
enum TaskStatus {
    Running,
    Completed,
    Failed,
}

#[derive(ToSchema)]
struct Agents {
    /// list_agents: the agents of the session.
    agents: Vec<Agent>,
}

#[derive(ToSchema)]
struct Agent {
    /// The name to spawn it by.
    name: String,
    /// What it is for.
    description: String,
    /// The model that it uses.
    model: String,
    /// How often it may call its model.
    max_turns: i32,
    /// The tools that it may use.
    tools: Vec<String>,
    /// Grows when it is defined again.
    version: i32,
}

#[derive(ToSchema)]
struct Defined {
    /// define: the name of the agent.
    defined: String,
    /// define: what the agent is for.
    description: String,
    /// define: 1, and more when it is defined again.
    version: i32,
}

#[derive(ToSchema)]
struct Spawned {
    /// Its name in this session.
    task_id: String,
    /// Its id everywhere.
    id: Uuid,
    /// The agent that works on it.
    agent: String,
    /// Its state.
    status: TaskStatus,
    /// A short name for people.
    #[schema(nullable = false)]
    label: Option<String>,
    /// What an unfinished task is doing.
    #[schema(nullable = false)]
    phase: Option<TaskState>,
    /// How many tasks are before it.
    #[schema(nullable = false)]
    queue_position: Option<i32>,
    /// When to poll again; `wait` is better.
    #[schema(nullable = false)]
    poll_after_ms: Option<i64>,
}

#[derive(ToSchema)]
struct BatchSpawned {
    /// wait, batch: tasks, with the fields of status and spawn.
    tasks: Vec<BatchItemSpawned>,
}

#[derive(ToSchema)]
struct BatchItemSpawned {
    /// batch: its name in the batch.
    #[schema(nullable = false)]
    name: Option<String>,
    task_id: String,
    id: Uuid,
    agent: String,
    status: TaskStatus,
    #[schema(nullable = false)]
    label: Option<String>,
    #[schema(nullable = false)]
    phase: Option<TaskState>,
    #[schema(nullable = false)]
    queue_position: Option<i32>,
    #[schema(nullable = false)]
    poll_after_ms: Option<i64>,
}

/// A task
#[derive(ToSchema)]
struct TaskShown {
    /// Its name in this session.
    task_id: String,
    /// Its id everywhere.
    id: Uuid,
    /// The agent that works on it.
    agent: String,
    /// Its state.
    status: TaskStatus,
    /// How often its model was called.
    turns_used: i32,
    /// Used so far.
    input_tokens: i64,
    /// Used so far.
    output_tokens: i64,
    /// Spent so far.
    #[schema(nullable = false)]
    cost_usd: Option<f64>,
    /// A short name for people.
    #[schema(nullable = false)]
    label: Option<String>,
    /// What an unfinished task is doing.
    #[schema(nullable = false)]
    phase: Option<TaskState>,
    /// How many tasks are before it.
    #[schema(nullable = false)]
    queue_position: Option<i32>,
    /// When to poll again; `wait` is better.
    #[schema(nullable = false)]
    poll_after_ms: Option<i64>,
    /// What holds an unfinished task back: a code, a sentence, and until when if it is known.
    #[schema(nullable = false)]
    why: Option<Why>,
    /// While its model call is tried again, or waits until the model accepts calls.
    #[schema(nullable = false)]
    retrying: Option<Retrying>,
    /// Why it failed.
    #[schema(nullable = false)]
    error: Option<String>,
    /// The kind of the failure.
    #[schema(nullable = false)]
    failure: Option<FailureKind>,
    /// When it was spawned, UTC.
    #[schema(nullable = false)]
    created_at: Option<DateTime<Utc>>,
    /// When it last did something, UTC.
    #[schema(nullable = false)]
    last_activity_at: Option<DateTime<Utc>>,
    /// When it ended, UTC.
    #[schema(nullable = false)]
    completed_at: Option<DateTime<Utc>>,
    /// cancel: whether this call cancelled it.
    #[schema(nullable = false)]
    cancelled: Option<bool>,
    /// collect: the result.
    #[schema(nullable = false)]
    result: Option<String>,
    /// The last text of a task that did not complete.
    partial_result: Option<String>,
    /// collect: the agent's own summary of its result.
    #[schema(nullable = false)]
    summary: Option<String>,
    /// The text was cut; `read` returns all of it.
    #[schema(nullable = false)]
    truncated: Option<bool>,
    /// The length of the whole text.
    #[schema(nullable = false)]
    result_chars: Option<i64>,
}

#[derive(ToSchema)]
struct Waited {
    tasks: Vec<TaskShown>,
    /// wait: no awaited task has ended yet; wait again.
    timed_out: bool,
    /// wait: after a time-out, up to ten of the awaited tasks that have not ended.
    #[schema(nullable = false)]
    unfinished: Option<Vec<TaskShown>>,
}

#[derive(ToSchema)]
struct ResultPage {
    task_id: String,
    /// read: where this page starts.
    offset: i64,
    /// read: a page of the result.
    text: String,
    /// read: where the next page starts; null at the end.
    #[schema(required)]
    next_offset: Option<i64>,
    result_chars: i64,
}

#[derive(ToSchema)]
struct Keys {
    /// list_keys: all keys, without their values.
    keys: Vec<NoteListed>,
    /// list_keys, snapshots: the size of all values.
    total_size_tokens: i64,
}

#[derive(ToSchema)]
struct NoteListed {
    /// Its key.
    key: String,
    /// The author.
    written_by: String,
    /// When, UTC.
    written_at: DateTime<Utc>,
    /// 1, and one more with each write.
    version: i64,
    /// Its size.
    value_size_tokens: i64,
}

#[derive(ToSchema)]
struct Note {
    /// read, write, read_history: the key.
    key: String,
    /// read: the text.
    value: String,
    /// The author.
    written_by: String,
    /// When, UTC.
    written_at: DateTime<Utc>,
    /// 1, and one more with each write.
    version: i64,
    /// read: its size.
    value_size_tokens: i64,
}

#[derive(ToSchema)]
struct Written {
    key: String,
    written_by: String,
    written_at: DateTime<Utc>,
    version: i64,
    /// write: the value is almost too large.
    #[schema(nullable = false)]
    warning: Option<String>,
}

#[derive(ToSchema)]
struct Deleted {
    /// delete: the key.
    deleted: String,
    /// delete: its last version.
    previous_version: i64,
}

#[derive(ToSchema)]
struct Notes {
    /// read_batch, read_snapshot: the values.
    entries: Vec<Note>,
    /// read_batch: keys that do not exist.
    missing: Vec<String>,
}

#[derive(ToSchema)]
struct NoteHistory {
    key: String,
    /// read_history: versions, the newest first.
    history: Vec<NoteChange>,
    /// read_history: there are older versions.
    more: bool,
    /// read_history: the oldest version that is kept, if it is not the first.
    #[schema(nullable = false)]
    kept_from_version: Option<i64>,
}

#[derive(ToSchema)]
struct NoteChange {
    /// 1, and one more with each write.
    version: i64,
    /// The author.
    written_by: String,
    /// When, UTC.
    written_at: DateTime<Utc>,
    /// The key was deleted by this change.
    #[schema(nullable = false)]
    deleted: Option<bool>,
    /// The text.
    #[schema(nullable = false)]
    value: Option<String>,
    /// Its size.
    #[schema(nullable = false)]
    value_size_tokens: Option<i64>,
}

#[derive(ToSchema)]
struct Snapshot {
    /// snapshot, read_snapshot: its label.
    label: String,
    version: i64,
    /// snapshot: the author.
    taken_by: String,
    /// snapshot: when, UTC.
    taken_at: DateTime<Utc>,
    total_size_tokens: i64,
    entries: Vec<Note>,
}

#[derive(ToSchema)]
struct SnapshotTaken {
    label: String,
    version: i64,
    taken_by: String,
    taken_at: DateTime<Utc>,
    total_size_tokens: i64,
    /// snapshot: how many keys it has.
    key_count: i64,
}
