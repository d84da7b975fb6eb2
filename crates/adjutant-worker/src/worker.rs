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

use crate::held::Held;
use crate::station::Station;
use crate::turnover::{Calls, Turnover};
use crate::{Handler, Settings, announce, backend, draft, listen, poll, renew, webhooks};

/// The longest that a call to the database may take here; a lease has to outlive it.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is kept of the grace for giving back what did not hand itself over.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// A running worker. Dropped, it stops at once, as if it had been killed.
pub struct Worker {
    station: Arc<Station>,
    running: JoinHandle<Result<(), String>>,
    loops: Vec<AbortOnDropHandle<()>>,
    delivering: AbortOnDropHandle<()>,
}

/// How a worker left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    /// Tasks that it could not give back: they are taken over when their leases have run out.
    pub left_behind: usize,
}

impl Worker {
    /// Registers and begins to work.
    pub async fn start(settings: Settings, handler: impl Handler) -> Result<Self, Error> {
        let connections = Connections { max: settings.connections(), patience: PATIENCE };
        let store = Store::open_with(&settings.database_url, connections).await?;
        let line = Store::open_line(&settings.database_url, settings.renew_every().min(PATIENCE)).await?;
        let renewals = Store::open_line(&settings.database_url, settings.renew_every()).await?;
        let new = NewWorker {
            name: settings.name.clone(),
            pool: settings.pool.clone(),
            concurrency: i32::from(settings.concurrency),
            lease: settings.lease,
            ..NewWorker::default()
        };
        let worker = store.register(&new).await?;
        let (endings, to_write) = mpsc::unbounded_channel();
        let (claims, to_run) = mpsc::unbounded_channel();
        let station = Arc::new(Station {
            worker: worker.over(&line),
            announcer: worker,
            store,
            held: Held::new(settings.concurrency, settings.stop_after()),
            wake: Notify::new(),
            claimed: Notify::new(),
            look: Notify::new(),
            claiming: RwLock::new(()),
            draining: CancellationToken::new(),
            cut_off: CancellationToken::new(),
            listening: AtomicBool::new(false),
            peers: std::sync::Mutex::default(),
            other_pools: AtomicBool::new(false),
            endings,
            settings,
        });
        station.wake.notify_one();
        let turnover = Turnover {
            calls: Calls { station: station.clone(), line },
            // It has the only one: when nothing is claimed any more, the claims end.
            claims: Some(claims),
            endings: to_write,
        };
        let loops = vec![
            spawn(turnover.run()),
            spawn(renew::renew(station.clone(), renewals)),
            spawn(poll::poll(station.clone())),
            spawn(listen::listen(station.clone())),
            spawn(draft::draft(station.clone())),
            spawn(announce::announce(station.clone())),
        ];
        let running = tokio::spawn(backend::run_claims(station.clone(), Arc::new(handler), to_run));
        let delivering = spawn(webhooks::deliver(station.clone()));
        Ok(Self { station, running, loops, delivering })
    }

    pub fn id(&self) -> WorkerId {
        self.station.worker.id()
    }

    /// Resolves only if the worker ends without having been told to, with the reason; cancel safe.
    pub async fn stopped(&mut self) -> String {
        tokio::select! {
            ended = &mut self.running => match ended {
                Ok(Ok(())) => "it ran out of claims".to_owned(),
                Ok(Err(error)) => error,
                Err(error) => error.to_string(),
            },
            (ended, _, _) = select_all(self.loops.iter_mut().chain([&mut self.delivering])) => match ended {
                Ok(()) => "one of its loops ended".to_owned(),
                Err(error) => error.to_string(),
            },
        }
    }

    /// Stops claiming, lets handlers reach a point where another worker can go on, gives back what does not, and ends:
    /// all within `grace`.
    pub async fn drain(mut self, grace: Duration) -> Drained {
        let began = Instant::now();
        let last_words = LAST_WORDS.min(grace / 4);
        self.station.draining.cancel();
        if timeout_at(began + grace - last_words, &mut self.running).await.is_err() {
            self.station.cut_off.cancel();
            if timeout(last_words / 2, &mut self.running).await.is_err() {
                self.give_back(last_words / 4).await;
            }
        }
        // What is not sent by then is sent by another.
        let _ = timeout_at(began + grace - last_words, &mut self.delivering).await;
        let drained = Drained { left_behind: self.station.held.all().len() };
        // From here on nothing is lost by being late.
        let _ = timeout_at(began + grace, async {
            let _ = self.station.worker.stop().await;
            self.loops.clear();
            self.station.store.close().await;
        })
        .await;
        drained
    }

    /// For handlers that do not even stop when they are dropped.
    async fn give_back(&self, patience: Duration) {
        let station = &self.station;
        let held = station.held.all();
        let endings: Vec<_> =
            held.iter().map(|(slot, task, lease)| station.worker.give_back(*slot, *task, *lease)).collect();
        match timeout(patience, station.store.end(&endings)).await {
            Ok(Ok(_)) => {
                for (_, _, lease) in held {
                    station.held.remove(lease);
                }
                station.tell_others();
            }
            Ok(Err(error)) => tracing::error!("cannot give back {} tasks: {error}", held.len()),
            Err(_) => tracing::error!("cannot give back {} tasks in time", held.len()),
        }
    }
}

fn spawn(work: impl Future<Output = ()> + Send + 'static) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(work))
}
