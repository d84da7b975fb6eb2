//! The demo's workers: loops that claim, store turns and end tasks; one of them dies half-way.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use adjutant_agent::Turn;
use adjutant_store::{Await, Claim, Error, NewTask, NewWorker, Store, Worker};
use futures::future::try_join_all;
use indicatif::ProgressBar;
use tokio::task::JoinHandle;

/// The agent that delegates.
pub const LEAD: &str = "lead";

/// How many children it spawns.
pub const CHILDREN: usize = 2;

const TURNS: i32 = 3;
const TURN: Duration = Duration::from_millis(60);
const LEASE: Duration = Duration::from_secs(2);

pub struct Fleet {
    workers: Vec<JoinHandle<anyhow::Result<()>>>,
    shared: Arc<Shared>,
}

struct Shared {
    total: usize,
    ended: AtomicUsize,
    progress: ProgressBar,
    news: Mutex<&'static str>,
}

impl Fleet {
    /// Three workers; the first dies in the middle of its third round.
    pub async fn start(store: &Store, total: usize, progress: ProgressBar) -> anyhow::Result<Self> {
        let shared = Arc::new(Shared { total, ended: AtomicUsize::new(0), progress, news: Mutex::new("") });
        let mut workers = Vec::new();
        for (name, rounds) in [("one", 2), ("two", u32::MAX), ("three", u32::MAX)] {
            let new = NewWorker { name: format!("worker {name}"), lease: LEASE, ..NewWorker::default() };
            let worker = store.register(&new).await?;
            workers.push(tokio::spawn(work(worker, rounds, shared.clone())));
        }
        Ok(Self { workers, shared })
    }

    pub fn is_done(&self) -> bool {
        self.shared.ended.load(Ordering::SeqCst) == self.shared.total
            || self.workers.iter().all(JoinHandle::is_finished)
    }

    pub fn news(&self) -> &'static str {
        self.shared.news.lock().map_or("", |news| *news)
    }

    pub async fn join(self) -> anyhow::Result<()> {
        for worker in self.workers {
            worker.await??;
        }
        Ok(())
    }
}

impl Shared {
    fn tell(&self, what: &'static str) {
        if let Ok(mut news) = self.news.lock() {
            *news = what;
        }
    }
}

async fn work(worker: Worker, rounds: u32, shared: Arc<Shared>) -> anyhow::Result<()> {
    let mut round = 0;
    while shared.ended.load(Ordering::SeqCst) < shared.total {
        worker.renew(&[]).await?;
        if !worker.sweep(Duration::ZERO).await?.is_empty() {
            shared.tell("the lost tasks go on elsewhere");
        }
        let claims = worker.claim(2).await?;
        if claims.is_empty() {
            tokio::time::sleep(TURN).await;
            continue;
        }
        round += 1;
        if round > rounds {
            return die(claims, &shared).await;
        }
        try_join_all(claims.into_iter().map(|claim| attempt(claim, &shared))).await?;
    }
    worker.stop().await?;
    Ok(())
}

/// Stores one turn of each task and is gone, without a word to anyone.
async fn die(claims: Vec<Claim>, shared: &Shared) -> anyhow::Result<()> {
    for mut claim in claims {
        claim.lease.checkpoint(turn()).await?;
    }
    shared.tell("a worker died, its leases run out");
    Ok(())
}

async fn attempt(mut claim: Claim, shared: &Shared) -> anyhow::Result<()> {
    while claim.lease.turns_used() < TURNS {
        tokio::time::sleep(TURN).await;
        claim.lease.checkpoint(turn()).await?;
        if claim.assignment.agent == LEAD && claim.lease.turns_used() == 1 {
            return delegate(claim).await;
        }
    }
    match claim.lease.complete("It was the cache.".to_owned(), None).write().await {
        Ok(()) => {
            shared.ended.fetch_add(1, Ordering::SeqCst);
            shared.progress.inc(1);
            Ok(())
        }
        // Somebody else has it, and ends it.
        Err(Error::LeaseLost(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

async fn delegate(claim: Claim) -> anyhow::Result<()> {
    let child = NewTask {
        agent: "researcher".to_owned(),
        assignment: "Look at one half.".to_owned(),
        ..NewTask::default()
    };
    let children = claim.lease.spawn(&vec![child; CHILDREN], None).await?;
    claim.lease.wait(children.iter().map(|child| child.id).collect(), Await::All).write().await?;
    Ok(())
}

fn turn() -> Turn {
    Turn { message: serde_json::json!("thinking"), text: Some("thinking".to_owned()), ..Turn::default() }
}
