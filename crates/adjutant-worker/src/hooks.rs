//! Hooks of an embedding program around the attempts of its tasks.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use adjutant_agent::{Depth, FailureKind, SessionId, TaskId, TaskNumber};
use adjutant_store::Abilities;
use futures::FutureExt;
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::{End, Handler, Stop, Task};

/// The longest time that a task waits for a hook.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Called around every attempt of a [`Hooked`] handler. A hook that fails, panics or takes longer
/// than 5 seconds is logged, and the task continues. A worker that is killed calls no hook; the
/// next attempt does.
pub trait Hooks: Send + Sync + 'static {
    /// Called before the handler runs.
    fn started(&self, task: &AttemptInfo) -> impl Future<Output = Result<(), String>> + Send;

    /// Called when the handler has returned or was stopped. The end is not stored yet; subscribe to
    /// events to see only stored ends.
    fn stopped(
        &self,
        task: &AttemptInfo,
        how: Stopped,
    ) -> impl Future<Output = Result<(), String>> + Send;
}

/// The attempt that a hook is called for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptInfo {
    pub task: TaskId,
    pub number: TaskNumber,
    pub session: SessionId,
    pub agent: String,
    /// Starts at 1, and grows when a task was released, waited or lost its worker.
    pub attempt: i32,
    pub parent: Option<TaskId>,
    /// 1 for a task of an orchestrator, 2 for its children.
    pub depth: Depth,
    pub traceparent: Option<String>,
}

impl AttemptInfo {
    fn of(task: &Task) -> Self {
        let assignment = task.assignment();
        Self {
            task: task.id(),
            number: assignment.number,
            session: task.session(),
            agent: assignment.agent.clone(),
            attempt: task.attempt(),
            parent: assignment.parent,
            depth: assignment.depth,
            traceparent: assignment.traceparent.clone(),
        }
    }
}

/// How an attempt stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    Completed,
    Failed(FailureKind),
    /// Another attempt continues the task: it was released, or it waits for its children.
    Interrupted,
    /// The handler was dropped: the task was cancelled or timed out, or its lease was lost.
    CutOff,
}

impl Stopped {
    fn of(end: &Result<End, Stop>) -> Self {
        match end {
            Ok(End::Completed { .. }) => Self::Completed,
            Ok(End::Failed { failure, .. }) => Self::Failed(*failure),
            Ok(End::Released { .. } | End::Waiting { .. } | End::Paused { .. })
            | Err(Stop::HandOver) => Self::Interrupted,
            Err(Stop::LeaseLost) => Self::CutOff,
            Err(Stop::Store(_)) => Self::Failed(FailureKind::Internal),
        }
    }
}

/// A handler with hooks around it.
pub struct Hooked<H, K> {
    handler: H,
    hooks: Arc<K>,
}

impl<H: Handler, K: Hooks> Hooked<H, K> {
    pub fn new(handler: H, hooks: K) -> Self {
        Self { handler, hooks: Arc::new(hooks) }
    }
}

impl<H: Handler, K: Hooks> Handler for Hooked<H, K> {
    async fn run(&self, task: &mut Task) -> Result<End, Stop> {
        let attempt = AttemptInfo::of(task);
        call(&attempt, "started", async { self.hooks.started(&attempt).await }).await;
        let mut cut_off = CutOff(Some((self.hooks.clone(), attempt)));
        let end = self.handler.run(task).await;
        if let Some((hooks, attempt)) = cut_off.0.take() {
            call(&attempt, "stopped", async { hooks.stopped(&attempt, Stopped::of(&end)).await })
                .await;
        }
        end
    }

    fn abilities(&self) -> Abilities {
        self.handler.abilities()
    }

    fn abilities_changed(&self, from: &Abilities) -> impl Future<Output = ()> + Send {
        self.handler.abilities_changed(from)
    }
}

/// Calls the `stopped` hook when it is dropped together with the handler.
struct CutOff<K: Hooks>(Option<(Arc<K>, AttemptInfo)>);

impl<K: Hooks> Drop for CutOff<K> {
    fn drop(&mut self) {
        if let (Some((hooks, attempt)), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(async move {
                call(&attempt, "stopped", async { hooks.stopped(&attempt, Stopped::CutOff).await })
                    .await;
            });
        }
    }
}

/// `calling` is an async block, so that a panic before its first `.await` is caught too.
async fn call(
    attempt: &AttemptInfo,
    hook: &str,
    calling: impl Future<Output = Result<(), String>>,
) {
    let problem = match timeout(TIMEOUT, AssertUnwindSafe(calling).catch_unwind()).await {
        Ok(Ok(Ok(()))) => return,
        Ok(Ok(Err(problem))) => problem,
        Ok(Err(_)) => "it panicked".to_owned(),
        Err(_) => format!("it took longer than {} s", TIMEOUT.as_secs()),
    };
    tracing::warn!(
        task.id = %attempt.task,
        agent.name = attempt.agent,
        task.attempt = attempt.attempt,
        "hook {hook} failed, the task continues: {problem}"
    );
}
