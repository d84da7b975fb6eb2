//! Batches concurrent calls. While one batch is under way, new requests gather for the next batch;
//! an idle batcher starts at once and waits for no further requests. A batch of many costs little
//! more than a batch of one. Two batches in parallel would both be smaller and cost more in total.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;
use tokio::sync::oneshot;

use crate::{Error, Result};

/// The largest batch. In a larger one, the first requests would wait for the last.
const MAX_BATCH: usize = 64;

type ResponseSender<A> = oneshot::Sender<Result<A>>;

/// Requests `Q` of one kind, with responses `A`.
#[derive(Debug)]
pub(crate) struct Batcher<Q, A>(Mutex<Pending<Q, A>>);

#[derive(Debug)]
struct Pending<Q, A> {
    requests: Vec<(Q, ResponseSender<A>)>,
    is_running: bool,
}

impl<Q, A> Default for Batcher<Q, A> {
    fn default() -> Self {
        Self(Mutex::new(Pending { requests: Vec::new(), is_running: false }))
    }
}

impl<Q: Send + 'static, A: Send + 'static> Batcher<Q, A> {
    /// Returns the response that `run_batch` has for this request. `run_batch` gets the requests in
    /// the order of their arrival and returns one response for each, in the same order. The request
    /// of a caller that is dropped stays in its batch.
    pub(crate) async fn submit(
        self: &Arc<Self>,
        request: Q,
        run_batch: impl Fn(Vec<Q>) -> BoxFuture<'static, Result<Vec<A>>> + Send + 'static,
    ) -> Result<A> {
        let (sender, response) = oneshot::channel();
        let is_idle = {
            let mut pending = self.pending();
            pending.requests.push((request, sender));
            !std::mem::replace(&mut pending.is_running, true)
        };
        if is_idle {
            let runner = Runner(self.clone());
            tokio::spawn(async move { runner.run(run_batch).await });
        }
        let no_response = |_| Err(Error::Unavailable(sqlx::Error::WorkerCrashed));
        response.await.unwrap_or_else(no_response)
    }
}

impl<Q, A> Batcher<Q, A> {
    fn pending(&self) -> MutexGuard<'_, Pending<Q, A>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs batches until no request is pending. There is at most one per batcher.
struct Runner<Q, A>(Arc<Batcher<Q, A>>);

impl<Q, A> Runner<Q, A> {
    async fn run(self, run_batch: impl Fn(Vec<Q>) -> BoxFuture<'static, Result<Vec<A>>>) {
        while let Some((requests, senders)) = self.next_batch() {
            match run_batch(requests).await {
                Ok(responses) => {
                    for (sender, response) in senders.into_iter().zip(responses) {
                        // Fails only if the caller was dropped.
                        let _ = sender.send(Ok(response));
                    }
                }
                Err(error) => {
                    for sender in senders {
                        let _ = sender.send(Err(error.duplicate()));
                    }
                }
            }
        }
    }

    /// Takes the next batch. If there is none, the runner ends, and the next request starts
    /// another.
    fn next_batch(&self) -> Option<(Vec<Q>, Vec<ResponseSender<A>>)> {
        let mut pending = self.0.pending();
        if pending.requests.is_empty() {
            pending.is_running = false;
            return None;
        }
        let length = pending.requests.len().min(MAX_BATCH);
        Some(pending.requests.drain(..length).unzip())
    }
}

impl<Q, A> Drop for Runner<Q, A> {
    /// After a panic, fails all pending requests, so that no caller waits for ever.
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut pending = self.0.pending();
            pending.requests.clear();
            pending.is_running = false;
        }
    }
}
