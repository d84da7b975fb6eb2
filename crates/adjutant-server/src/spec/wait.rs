use std::time::Instant;

use adjutant_agent::{SessionId, WaitCall};
use adjutant_store::{EndsAwaited, Patience};
use serde_json::{Value, json};

use super::shown;
use crate::{Desk, Result};

impl Desk {
    /// Waits until tasks have ended, or for as long as it may; answers with those that have.
    pub(super) async fn wait(&self, session: SessionId, call: &WaitCall) -> Result<Value> {
        let deadline = Instant::now() + call.timeout;
        let mut awaited = match &call.task_ids {
            Some(tasks) => EndsAwaited::of(tasks, call.mode),
            None => EndsAwaited::of_session(call.mode),
        };
        // Before the first look: what changes after it is heard of.
        let mut watch = self.hub.watch(session);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            // A process that is about to end answers early, and its caller goes on at another.
            let is_last = left.is_zero() || self.stopping.is_cancelled();
            let patience = if is_last { Patience::LastLook } else { Patience::LookAgain };
            let ends = self.store.look_for_ends(session, &mut awaited, patience).await?;
            if ends.met || patience == Patience::LastLook {
                let tasks: Vec<Value> =
                    ends.tasks.iter().map(|task| Value::Object(shown::progress(task))).collect();
                return Ok(json!({ "tasks": tasks, "timed_out": !ends.met }));
            }
            // Whichever comes first: the next look finds out what it was.
            tokio::select! {
                () = watch.changed() => {}
                () = tokio::time::sleep(left) => {}
                () = self.stopping.cancelled() => {}
            }
        }
    }
}
