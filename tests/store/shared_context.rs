//! Shared context: its calls (`calls`), its lifetime (`lifetime`), races, and calls by tasks
//! (`tasks`).

pub mod calls;
pub mod lifetime;
pub mod races;
pub mod tasks;

use adjutant_agent::{ContextCall, SessionId, TextLimits, ToolResult};
use adjutant_store::{Error, Lease};
use serde_json::{Value, json};

use crate::support::world::World;

pub fn context(arguments: &Value) -> ContextCall {
    ContextCall::parse(arguments, &TextLimits::DEFAULT).unwrap()
}

/// The orchestrator's call, from its arguments to its answer.
pub async fn call(world: &World, session: SessionId, arguments: Value) -> Result<Value, Error> {
    world
        .store
        .shared_context(session, &ContextCall::parse(&arguments, &TextLimits::DEFAULT)?)
        .await
}

pub async fn write(
    world: &World,
    session: SessionId,
    key: &str,
    value: &str,
) -> Result<Value, Error> {
    call(world, session, json!({"action": "write", "key": key, "value": value})).await
}

pub async fn read(world: &World, session: SessionId, key: &str) -> Result<Value, Error> {
    call(world, session, json!({"action": "read", "key": key})).await
}

pub async fn list_keys(world: &World, session: SessionId) -> Value {
    call(world, session, json!({"action": "list_keys"})).await.unwrap()
}

/// A task's call, from its arguments to what its model is given.
pub async fn task_call(lease: &Lease, call_id: &str, arguments: &Value) -> (Value, ToolResult) {
    let result = lease.shared_context(call_id, &context(arguments)).await.unwrap();
    (serde_json::from_str(&result.content).unwrap(), result)
}
