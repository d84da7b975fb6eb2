//! The only file that knows apalis. It runs what was claimed; the queue, the leases and the ends are ours:
//!
//! - no poll of the backend ever fails, because an error would end the worker and drop what it runs;
//! - claiming, renewing and ending live in loops of their own, because while it drains only `poll_close` is called;
//! - draining is the end of the claims: what was claimed reaches its handler, and then the worker ends by itself;
//! - every attempt is a task of its own, and is aborted when the worker is dropped.

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
use crate::attempt::attempt;
use crate::claim::Claimed;
use crate::station::Station;

/// Runs every claim until there will be no more, and all have ended.
pub(crate) async fn run_claims<H: Handler>(
    station: Arc<Station>,
    handler: Arc<H>,
    claims: mpsc::UnboundedReceiver<Claimed>,
) -> Result<(), String> {
    WorkerBuilder::new(station.settings.name.as_str())
        .backend(Claims(claims))
        .build(move |claimed: Claimed| own_task(attempt(station.clone(), handler.clone(), claimed)))
        .run()
        .await
        .map_err(|error| error.to_string())
}

/// Not apalis's `parallelize`: that is the same with two more boxes, and what the compiler cannot see to be `Send`.
fn own_task(attempt: impl Future<Output = ()> + Send + 'static) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(attempt))
}

struct Claims(mpsc::UnboundedReceiver<Claimed>);

impl Backend for Claims {
    type Task = Task<Claimed>;
    type Error = Infallible;

    fn poll_ready(&mut self, _: &mut Context<'_>, _: &WorkerContext) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn poll_next(
        &mut self,
        context: &mut Context<'_>,
        _: &WorkerContext,
    ) -> Poll<Option<Result<Self::Task, Infallible>>> {
        self.0.poll_recv(context).map(|claimed| claimed.map(|claimed| Ok(TaskBuilder::new(claimed).build())))
    }

    fn poll_close(&mut self, _: &mut Context<'_>, worker: &WorkerContext) -> Poll<Result<(), Infallible>> {
        // It would wait for this for ever, though there are no more claims. It fails only for a worker that has not begun.
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
