//! The tools as clients see them: what models see of them everywhere, the session as one more argument, and what they answer.

use std::sync::{Arc, LazyLock};

use adjutant_agent::{ToolDefinition, shared_context_tool, subagent_tool};
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use crate::Dialect;

static TOOLS: LazyLock<[Tool; 2]> = LazyLock::new(|| {
    let spec = |definition, answer, annotations| {
        let mut tool = tool(definition, annotations, Dialect::Spec);
        tool.output_schema = Some(object(answer));
        tool
    };
    [
        spec(subagent_tool(), subagent_answer(), kind("Subagents").open_world(true)),
        spec(shared_context_tool(), context_answer(), kind("Shared context").open_world(false)),
    ]
});

/// Nothing that was stored is lost by any: what a task has said is kept when it is cancelled, and notes have a history.
fn kind(title: &str) -> ToolAnnotations {
    ToolAnnotations::with_title(title).read_only(false).destructive(false).idempotent(false)
}

/// The tools of a dialect. What the other sources' tools answer has no schema of ours.
pub(super) fn all(dialect: Dialect) -> Vec<Tool> {
    if dialect == Dialect::Spec {
        return TOOLS.to_vec();
    }
    let tools = dialect.tools().into_iter();
    tools.map(|definition| tool(definition, kind("Subagents").open_world(true), dialect)).collect()
}

fn tool(definition: ToolDefinition, annotations: ToolAnnotations, dialect: Dialect) -> Tool {
    let mut input = definition.input_schema;
    input["properties"][dialect.session_argument()] = json!({
        "type": "string",
        "description": "The session to work in: its agents, tasks and shared context. Yours if you name none. If an answer has a session_id, give it with every further call.",
    });
    let title = annotations.title.clone();
    let mut tool = Tool::new(definition.name, definition.description, object(input));
    tool.title = title;
    tool.annotations = Some(annotations);
    tool
}

fn object(schema: Value) -> Arc<JsonObject> {
    if let Value::Object(schema) = schema { Arc::new(schema) } else { Arc::default() }
}

/// One schema for the answers of all actions, and for errors, which strict clients check too: no field is in all of them.
fn answer(properties: Value) -> Value {
    let mut schema = json!({"type": "object", "properties": properties});
    for (name, field) in [
        ("session_id", text("The session, if you did not name one.")),
        ("error", text("Why it failed: of a call that is refused, a code; of a task, a sentence.")),
        ("message", text("Of a call that is refused: what to do about it.")),
    ] {
        schema["properties"][name] = field;
    }
    schema
}

fn subagent_answer() -> Value {
    let mut properties = task();
    let more = json!({
        "agents": list("list_agents: who there is.", json!({
            "name": text("Its name, for spawn."), "description": text("What it is for."),
            "model": text("The model that it uses."), "max_turns": whole("How often it may call its model."),
            "tools": {"type": "array", "items": {"type": "string"}, "description": "What it may use."},
            "version": whole("Grows when it is defined again."),
        })),
        "defined": text("define: the name of the agent."),
        "description": text("define: what the agent is for."),
        "version": whole("define: 1, and more when it is defined again."),
        "tasks": list("wait, batch: tasks, as status and spawn show them.", task()),
        "timed_out": flag("wait: nothing that was waited for has ended yet; wait again."),
        "result": text("collect: what the agent found."),
        "summary": text("collect: the agent's own summary of it."),
        "cancelled": flag("cancel: whether this call stopped it."),
        "offset": whole("read: where this page begins."),
        "text": text("read: a page of the result."),
        "next_offset": or_null("integer", "read: where the next page begins; null at the end."),
    });
    if let (Some(properties), Value::Object(more)) = (properties.as_object_mut(), more) {
        properties.extend(more);
    }
    answer(properties)
}

/// How a task is shown.
fn task() -> Value {
    json!({
        "task_id": text("Its name in this session."),
        "id": text("Its id everywhere."),
        "name": text("batch: what the batch called it."),
        "agent": text("Who does it."),
        "status": {"type": "string", "enum": ["running", "completed", "failed"], "description": "How it stands."},
        "phase": {"type": "string", "enum": ["queued", "running", "waiting"], "description": "What a running one is doing."},
        "queue_position": whole("How many are before it."),
        "poll_after_ms": whole("When it is worth asking again; wait is better."),
        "turns_used": whole("How often its model was called."),
        "label": text("What people recognise it by."),
        "error": text("Why it failed."),
        "failure": text("The kind of the failure."),
        "input_tokens": whole("Used so far."),
        "output_tokens": whole("Used so far."),
        "cost_usd": {"type": "number", "description": "Spent so far."},
        "created_at": text("When it was spawned, UTC."),
        "last_activity_at": text("When it last did something, UTC."),
        "completed_at": text("When it ended, UTC."),
        "truncated": flag("The text was cut; read has all of it."),
        "result_chars": whole("The length of the whole text."),
        "partial_result": or_null("string", "What a task that did not complete had said."),
    })
}

fn context_answer() -> Value {
    let entry = || {
        json!({
            "key": text("Its key."), "value": text("Its text."), "written_by": text("Who wrote it."),
            "written_at": text("When, UTC."), "version": whole("1, and one more with each write."),
            "value_size_tokens": whole("Its size."), "deleted": flag("It was deleted then."),
        })
    };
    answer(json!({
        "keys": list("list_keys: all keys, without their values.", entry()),
        "total_size_tokens": whole("list_keys, snapshots: the size of all."),
        "key": text("read, write, read_history: the key."),
        "value": text("read: the text."),
        "written_by": text("Who wrote it."),
        "written_at": text("When, UTC."),
        "version": whole("1, and one more with each write."),
        "value_size_tokens": whole("read: its size."),
        "warning": text("write: it is almost too large."),
        "deleted": text("delete: the key."),
        "previous_version": whole("delete: its last version."),
        "entries": list("read_batch, read_snapshot: what there is.", entry()),
        "missing": {"type": "array", "items": {"type": "string"}, "description": "read_batch: keys that are not there."},
        "history": list("read_history: versions, the newest first.", entry()),
        "more": flag("read_history: there are older ones."),
        "label": text("snapshot, read_snapshot: its label."),
        "taken_by": text("snapshot: who took it."),
        "taken_at": text("snapshot: when, UTC."),
        "key_count": whole("snapshot: how many keys it has."),
    }))
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn whole(description: &str) -> Value {
    json!({"type": "integer", "description": description})
}

fn flag(description: &str) -> Value {
    json!({"type": "boolean", "description": description})
}

fn or_null(kind: &str, description: &str) -> Value {
    json!({"type": [kind, "null"], "description": description})
}

fn list(description: &str, properties: Value) -> Value {
    json!({"type": "array", "description": description, "items": {"type": "object", "properties": properties}})
}
