//! The apalis backend, and the only file that uses apalis. Apalis runs claimed tasks; the queue,
//! the leases and the ends are Adjutant's own:
//!
//! - No poll of the backend fails, because an error would end the apalis worker and drop the tasks
//!   that it runs.
//! - Claims, renewals and ends have loops of their own, because apalis calls only `poll_close`
//!   while it drains.
//! - Draining ends the stream of claims: claimed tasks reach their handler, and then the apalis
//!   worker ends by itself.
//! - Each attempt is a tokio task of its own, which is aborted when the worker is dropped.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use apalis::prelude::{Backend, Task, TaskBuilder, WorkerBuilder, WorkerContext};
use apalis_core::backend::BackendConfig;
use apalis_core::backend::finalize::Ephemeral;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;
use tower_layer::Identity;

use crate::Handler;
use crate::attempt;
use crate::claim::Claimed;
use crate::worker_state::WorkerState;

/// Runs all claimed tasks. Returns when the stream of claims and all attempts have ended.
pub(crate) async fn run_claims<H: Handler>(
    state: Arc<WorkerState>,
    handler: Arc<H>,
    claims: mpsc::UnboundedReceiver<Claimed>,
) -> Result<(), String> {
    WorkerBuilder::new(state.settings.name.as_str())
        .backend(Claims(claims))
        .build(move |claimed: Claimed| {
            own_task(attempt::run(state.clone(), handler.clone(), claimed))
        })
        .run()
        .await
        .map_err(|error| error.to_string())
}

/// Apalis's `parallelize` does the same with two more boxes and a type that is not `Send` for the
/// compiler.
fn own_task(attempt: impl Future<Output = ()> + Send + 'static) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(attempt))
}

struct Claims(mpsc::UnboundedReceiver<Claimed>);

impl Backend for Claims {
    type Task = Task<Claimed>;
    type Error = Infallible;

    fn poll_ready(
        &mut self,
        _: &mut Context<'_>,
        _: &WorkerContext,
    ) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn poll_next(
        &mut self,
        context: &mut Context<'_>,
        _: &WorkerContext,
    ) -> Poll<Option<Result<Self::Task, Infallible>>> {
        self.0
            .poll_recv(context)
            .map(|claimed| claimed.map(|claimed| Ok(TaskBuilder::new(claimed).build())))
    }

    fn poll_close(
        &mut self,
        _: &mut Context<'_>,
        worker: &WorkerContext,
    ) -> Poll<Result<(), Infallible>> {
        // Without this apalis would wait forever after the last claim. The call fails only for a
        // worker that has not started.
        let _ = worker.stop();
        Poll::Ready(Ok(()))
    }
}

impl BackendConfig for Claims {
    type Args = Claimed;
    type Id = uuid::Uuid;
    type Kind = Ephemeral;
    type Config = ();
    type Layer = Identity;

    fn config(&self) -> &() {
        &()
    }

    fn middleware(&mut self, _: &mut WorkerContext) -> Identity {
        Identity::new()
    }
}
