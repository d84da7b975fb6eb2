//! What an embedding program does around its tasks.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use adjutant_agent::{FailureKind, SessionId, TaskId, TaskNumber};
use futures::FutureExt;
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::{End, Handler, Stop, Task};

/// The longest that a task waits for a hook.
const PATIENCE: Duration = Duration::from_secs(5);

/// Called around every attempt of a [`Hooked`] handler, as far as possible: a hook that fails, panics or takes longer than 5 seconds
/// is logged, and the task goes on. A worker that is killed calls none; the next attempt does.
pub trait Hooks: Send + Sync + 'static {
    /// Before anything is done.
    fn started(&self, task: &AttemptOf) -> impl Future<Output = Result<(), String>> + Send;

    /// When the handler is done, or was stopped. The end is not stored yet: who wants only what is stored subscribes to events.
    fn stopped(&self, task: &AttemptOf, how: Stopped) -> impl Future<Output = Result<(), String>> + Send;
}

/// The attempt that a hook is called for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptOf {
    pub task: TaskId,
    pub number: TaskNumber,
    pub session: SessionId,
    pub agent: String,
    /// 1 for the first. A task that was handed over, waited or lost its worker has more.
    pub attempt: i32,
    pub parent: Option<TaskId>,
    pub depth: i16,
    pub traceparent: Option<String>,
}

impl AttemptOf {
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
    /// Another attempt goes on: it was handed over, or it waits for its children.
    Interrupted,
    /// It was taken away from the handler: cancelled, out of time, or lost.
    CutOff,
}

impl Stopped {
    fn of(end: &Result<End, Stop>) -> Self {
        match end {
            Ok(End::Completed { .. }) => Self::Completed,
            Ok(End::Failed { failure, .. }) => Self::Failed(*failure),
            Ok(End::Released { .. } | End::Waiting { .. }) | Err(Stop::HandOver) => Self::Interrupted,
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
        let attempt = AttemptOf::of(task);
        call(&attempt, "started", async { self.hooks.started(&attempt).await }).await;
        let mut cut_off = CutOff(Some((self.hooks.clone(), attempt)));
        let end = self.handler.run(task).await;
        if let Some((hooks, attempt)) = cut_off.0.take() {
            call(&attempt, "stopped", async { hooks.stopped(&attempt, Stopped::of(&end)).await }).await;
        }
        end
    }
}

/// Dropped with its handler, it calls the hook that the handler did not come to.
struct CutOff<K: Hooks>(Option<(Arc<K>, AttemptOf)>);

impl<K: Hooks> Drop for CutOff<K> {
    fn drop(&mut self) {
        if let (Some((hooks, attempt)), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(async move {
                call(&attempt, "stopped", async { hooks.stopped(&attempt, Stopped::CutOff).await }).await;
            });
        }
    }
}

/// `calling` is a block of its own, so that a panic before its first `.await` is caught too.
async fn call(attempt: &AttemptOf, hook: &str, calling: impl Future<Output = Result<(), String>>) {
    let problem = match timeout(PATIENCE, AssertUnwindSafe(calling).catch_unwind()).await {
        Ok(Ok(Ok(()))) => return,
        Ok(Ok(Err(problem))) => problem,
        Ok(Err(_)) => "it panicked".to_owned(),
        Err(_) => format!("it took longer than {} s", PATIENCE.as_secs()),
    };
    tracing::warn!(
        task.id = %attempt.task,
        agent.name = attempt.agent,
        task.attempt = attempt.attempt,
        "the hook {hook} failed, and its task goes on: {problem}"
    );
}
