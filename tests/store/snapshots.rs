//! Tasks that work on a snapshot of the shared context: what they see and change (`overlays`), when
//! it ends (`ends`), and what becomes of it when workers die (`deaths`).

pub mod ends;
pub mod overlays;

use adjutant_agent::SessionId;
use adjutant_store::{Claim, Lease, NewTask, TaskContext};
use serde_json::{Value, json};

use crate::store::shared_context::{call, task_call, write};
use crate::support::world::{World, queued, turn};

fn with_snapshot() -> NewTask {
    NewTask { context: TaskContext::Snapshot, ..queued() }
}

/// A session with a key in its context, and a running task with a snapshot of it.
async fn one_apart(world: &World) -> (SessionId, Claim) {
    let session = world.session().await;
    write(world, session, "plan", "before").await.unwrap();
    world.spawn_one(session, with_snapshot()).await;
    (session, claim(world).await)
}

/// The next task, after its first turn.
async fn claim(world: &World) -> Claim {
    let mut claim = world.claim_one(&world.worker().await).await;
    claim.lease.checkpoint(&turn("I look.")).await.unwrap();
    claim
}

/// A call of a task, as the only one of a new turn.
async fn context_call(lease: &mut Lease, arguments: Value) -> Value {
    lease.checkpoint(&turn("I go on.")).await.unwrap();
    task_call(lease, "c", &arguments).await.0
}

async fn note(lease: &mut Lease, key: &str, value: &str) -> Value {
    context_call(lease, json!({"action": "write", "key": key, "value": value})).await
}

/// All that one can see of a context.
async fn everything(world: &World, session: SessionId) -> Vec<Value> {
    let mut seen = Vec::new();
    for arguments in views() {
        seen.push(call(world, session, arguments).await.unwrap());
    }
    seen
}

/// The same for a task.
async fn everything_of(lease: &mut Lease) -> Vec<Value> {
    let mut seen = Vec::new();
    for arguments in views() {
        seen.push(context_call(lease, arguments).await);
    }
    seen
}

fn views() -> [Value; 3] {
    [
        json!({"action": "list_keys"}),
        json!({"action": "read", "key": "plan"}),
        json!({"action": "read_batch", "keys": ["plan", "other", "third"]}),
    ]
}

/// Rows of contexts that are no session's.
pub async fn overlay_rows(world: &World) -> i64 {
    world
        .count(
            "select (select count(*) from context_entry where session < 0)
                + (select count(*) from context_history where session < 0)
                + (select count(*) from context_snapshot where session < 0)",
        )
        .await
}
