use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use adjutant_agent::WorkerId;
use adjutant_store::{Connections, Error, NewWorker, Store};
use futures::future::select_all;
use tokio::sync::{Notify, RwLock, mpsc};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::end_and_claim::{Calls, EndAndClaim};
use crate::lease_table::LeaseTable;
use crate::worker_state::WorkerState;
use crate::{
    Handler, Settings, abilities, backend, delete_rows, listen, poll, renew, start_events,
    store_drafts, webhooks,
};

/// Timeout of a database call. A lease has to be longer.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// The part of the drain time that is reserved for releasing tasks whose handlers did not stop.
const RELEASE_TIME: Duration = Duration::from_secs(2);

/// A running worker. Dropping it stops it at once, as if the process had been killed.
pub struct Worker {
    state: Arc<WorkerState>,
    running: JoinHandle<Result<(), String>>,
    loops: Vec<AbortOnDropHandle<()>>,
    delivering: AbortOnDropHandle<()>,
}

/// The result of a drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    /// Tasks that could not be released: other workers take them over when their leases expire.
    pub left_behind: usize,
}

impl Worker {
    /// Registers the worker in the database and starts its loops.
    pub async fn start(settings: Settings, handler: impl Handler) -> Result<Self, Error> {
        let connections = Connections { max: settings.connections(), call_timeout: CALL_TIMEOUT };
        let store = Store::open_with(&settings.database_url, connections)
            .await?
            .with_context_versions(settings.context_versions)
            .with_text_limits(settings.texts);
        let connection = Store::open_without_ping(
            &settings.database_url,
            settings.renew_every().min(CALL_TIMEOUT),
        )
        .await?;
        let renewals =
            Store::open_without_ping(&settings.database_url, settings.renew_every()).await?;
        let new = NewWorker {
            name: settings.name.clone(),
            pool: settings.pool.clone(),
            concurrency: i32::from(settings.concurrency),
            lease: settings.lease,
            abilities: handler.abilities(),
            ..NewWorker::default()
        };
        let worker = store.register(&new).await?;
        let (endings, to_write) = mpsc::unbounded_channel();
        let (claims, to_run) = mpsc::unbounded_channel();
        let state = Arc::new(WorkerState {
            worker: worker.with_store(&connection),
            start_events: worker,
            store,
            leases: LeaseTable::new(settings.concurrency, settings.stop_after()),
            wake: Notify::new(),
            claimed: Notify::new(),
            poll_now: Notify::new(),
            deletes: Notify::new(),
            claiming: RwLock::new(()),
            draining: CancellationToken::new(),
            abort_handlers: CancellationToken::new(),
            listening: AtomicBool::new(false),
            peers: std::sync::Mutex::default(),
            other_pools: AtomicBool::new(false),
            endings,
            settings,
        });
        state.wake.notify_one();
        let end_and_claim = EndAndClaim {
            calls: Calls { state: state.clone(), connection },
            // The only sender: dropping it ends the stream of claims.
            claims: Some(claims),
            endings: to_write,
        };
        let handler = Arc::new(handler);
        let loops = vec![
            spawn(abilities::publish(state.clone(), handler.clone(), new.abilities)),
            spawn(end_and_claim.run()),
            spawn(renew::run(state.clone(), renewals)),
            spawn(poll::run(state.clone())),
            spawn(listen::run(state.clone())),
            spawn(store_drafts::run(state.clone())),
            spawn(start_events::run(state.clone())),
            spawn(delete_rows::run(state.clone())),
        ];
        let running = tokio::spawn(backend::run_claims(state.clone(), handler, to_run));
        let delivering = spawn(webhooks::deliver(state.clone()));
        Ok(Self { state, running, loops, delivering })
    }

    pub fn id(&self) -> WorkerId {
        self.state.worker.id()
    }

    /// Resolves only if the worker ends by itself, with the reason. Cancel safe.
    pub async fn stopped(&mut self) -> String {
        tokio::select! {
            ended = &mut self.running => match ended {
                Ok(Ok(())) => "the stream of claims ended".to_owned(),
                Ok(Err(error)) => error,
                Err(error) => error.to_string(),
            },
            (ended, _, _) = select_all(self.loops.iter_mut().chain([&mut self.delivering])) => match ended {
                Ok(()) => "one of its loops ended".to_owned(),
                Err(error) => error.to_string(),
            },
        }
    }

    /// Stops claiming, lets handlers stop where another worker can continue, releases the tasks of
    /// handlers that did not stop, and ends: all within `grace`.
    pub async fn drain(mut self, grace: Duration) -> Drained {
        let started = Instant::now();
        let release_time = RELEASE_TIME.min(grace / 4);
        self.state.draining.cancel();
        if timeout_at(started + grace - release_time, &mut self.running).await.is_err() {
            self.state.abort_handlers.cancel();
            if timeout(release_time / 2, &mut self.running).await.is_err() {
                self.release_all(release_time / 4).await;
            }
        }
        // Another worker sends the deliveries that are not sent by then.
        let _ = timeout_at(started + grace - release_time, &mut self.delivering).await;
        let drained = Drained { left_behind: self.state.leases.all().len() };
        // Nothing is lost if the rest does not finish in time.
        let _ = timeout_at(started + grace, async {
            let _ = self.state.worker.stop().await;
            self.loops.clear();
            self.state.store.close().await;
        })
        .await;
        drained
    }

    /// Releases the tasks of handlers that block their thread and so do not stop when dropped.
    async fn release_all(&self, time: Duration) {
        let state = &self.state;
        let held = state.leases.all();
        let endings: Vec<_> = held
            .iter()
            .map(|(slot, task, lease)| state.worker.release_by_id(*slot, *task, *lease))
            .collect();
        match timeout(time, state.store.end(&endings)).await {
            Ok(Ok(_)) => {
                for (_, _, lease) in held {
                    state.leases.remove(lease);
                }
                state.notify_other_workers();
            }
            Ok(Err(error)) => tracing::error!("release of {} tasks failed: {error}", held.len()),
            Err(_) => tracing::error!("release of {} tasks timed out", held.len()),
        }
    }
}

fn spawn(work: impl Future<Output = ()> + Send + 'static) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(work))
}
