//! One actor of the random driver: an orchestrator, a worker and an operator in one, on a
//! connection of its own.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use adjutant_agent::{ErrorCode, FailureKind, SessionId, TaskId, TaskNumber, ToolResult, WaitMode};
use adjutant_store::{
    Claim, Dependency, Ending, Error, IdempotencyKey, NewTask, OnWorkerLoss, Worker,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::support::world::{World, queued, turn};

/// What actors were told: the history must agree with all of it.
#[derive(Default)]
pub struct Ledger {
    /// Answered spawns, in order.
    pub spawned: Mutex<Vec<(SessionId, TaskNumber, TaskId)>>,
    /// Turns that were stored: task, number, attempt.
    pub turns: Mutex<Vec<(TaskId, i32, i32)>>,
    /// Attempts whose end was accepted, and whether it ended the task.
    pub ended: Mutex<Vec<(TaskId, i32, &'static str)>>,
    pub cancelled: Mutex<Vec<TaskId>>,
    pub collected: Mutex<Vec<TaskId>>,
    pub calls: Mutex<HashMap<&'static str, u64>>,
    cap_changes_begun: AtomicU64,
    cap_changes_done: AtomicU64,
}

impl Ledger {
    fn count(&self, what: &'static str) {
        *self.calls.lock().unwrap().entry(what).or_default() += 1;
    }

    /// The number of cap changes so far; none while one is under way.
    pub fn cap_changes(&self) -> Option<u64> {
        let done = self.cap_changes_done.load(Ordering::SeqCst);
        (self.cap_changes_begun.load(Ordering::SeqCst) == done).then_some(done)
    }

    pub fn summary(&self) -> String {
        let calls = self.calls.lock().unwrap();
        let mut calls: Vec<_> =
            calls.iter().map(|(what, count)| format!("{count} {what}")).collect();
        calls.sort_unstable();
        calls.join(", ")
    }
}

pub struct Actor {
    rng: StdRng,
    world: Arc<World>,
    sessions: Vec<SessionId>,
    ledger: Arc<Ledger>,
    worker: Worker,
    held: Vec<Claim>,
    /// Leases of workers that died; they come back as stale ones, or are released at the very end.
    dead: Vec<Claim>,
}

impl Actor {
    pub async fn new(
        seed: u64,
        world: Arc<World>,
        sessions: Vec<SessionId>,
        ledger: Arc<Ledger>,
    ) -> Self {
        let worker = world.steady_worker().await;
        let rng = StdRng::seed_from_u64(seed);
        Self { rng, world, sessions, ledger, worker, held: Vec::new(), dead: Vec::new() }
    }

    /// Acts until the time is over; answers the leases it believes it still has.
    pub async fn act(mut self, until: Instant) -> Vec<Claim> {
        while Instant::now() < until {
            match self.rng.random_range(0..1000) {
                0..220 => self.spawn().await,
                220..430 => self.claim().await,
                430..540 => self.checkpoint().await,
                540..720 => self.end_some().await,
                720..790 => self.delegate().await,
                790..840 => self.cancel().await,
                840..890 => self.collect().await,
                890..920 => self.renew().await,
                920..950 => self.sweep().await,
                950..970 => self.expire().await,
                970..985 => self.die_or_come_back(),
                985..995 => drop(self.world.store.admit_due().await.unwrap()),
                _ => self.change_cap().await,
            }
        }
        self.held.append(&mut self.dead);
        self.held
    }

    fn session(&mut self) -> SessionId {
        self.sessions[self.rng.random_range(0..self.sessions.len())]
    }

    fn one_in(&mut self, n: u32) -> bool {
        self.rng.random_ratio(1, n)
    }

    /// A task that this or another actor spawned, recent ones more often.
    fn known(&mut self) -> Option<(SessionId, TaskNumber, TaskId)> {
        let spawned = self.ledger.spawned.lock().unwrap();
        let recent = spawned.len().min(400);
        (recent > 0).then(|| spawned[spawned.len() - 1 - self.rng.random_range(0..recent)])
    }

    async fn spawn(&mut self) {
        let session = self.session();
        let mut batch = Vec::new();
        for place in 0..self.rng.random_range(1..4) {
            let mut task = NewTask {
                queue: !self.one_in(4),
                priority: self.rng.random_range(-1..2),
                ..queued()
            };
            if place > 0 && self.one_in(3) {
                task.depends_on.push(Dependency::InBatch(place - 1));
            }
            if let Some((of, number, _)) = self.known()
                && of == session
                && self.one_in(2)
            {
                task.depends_on.push(Dependency::Task(number));
            }
            if self.one_in(20) {
                task.delay = Some(Duration::from_millis(self.rng.random_range(1..500)));
            }
            if self.one_in(30) {
                task.on_worker_loss = OnWorkerLoss::Fail;
            }
            batch.push(task);
        }
        let key = format!("key {}", self.rng.random_range(0..10_000));
        let key = self.one_in(5).then_some(IdempotencyKey { key: &key, body: b"" });
        match self.world.store.spawn(session, &batch, key).await {
            Ok(spawned) => {
                self.ledger.count("spawned");
                let mut known = self.ledger.spawned.lock().unwrap();
                known.extend(spawned.iter().map(|task| (session, task.number, task.id)));
            }
            // A known task may be somebody's child, which nobody else may depend on.
            Err(Error::Refused(refusal))
                if matches!(
                    refusal.code,
                    ErrorCode::MaxTasksExceeded | ErrorCode::TaskNotFound
                ) =>
            {
                self.ledger.count("spawns refused");
            }
            Err(error) => panic!("spawn: {error:?}"),
        }
    }

    async fn claim(&mut self) {
        if self.held.len() > 8 {
            return;
        }
        let claims = self.worker.claim(self.rng.random_range(1..5)).await.unwrap();
        for _ in &claims {
            self.ledger.count("claimed");
        }
        self.held.extend(claims);
    }

    fn take(&mut self) -> Option<Claim> {
        (!self.held.is_empty())
            .then(|| self.held.swap_remove(self.rng.random_range(0..self.held.len())))
    }

    /// Whether the lease was still there; anything else that goes wrong is a bug.
    fn kept(&self, answer: Result<(), Error>) -> bool {
        match answer {
            Ok(()) => true,
            Err(Error::LeaseLost(_)) => {
                self.ledger.count("leases lost");
                false
            }
            Err(error) => panic!("{error:?}"),
        }
    }

    async fn checkpoint(&mut self) {
        let Some(mut claim) = self.take() else { return };
        let stored = claim.lease.checkpoint(&turn("a turn")).await;
        if !self.kept(stored.map(drop)) {
            return;
        }
        self.ledger.count("turns");
        let turn = (claim.lease.task(), claim.lease.answers(), claim.lease.attempt());
        self.ledger.turns.lock().unwrap().push(turn);
        let result = ToolResult { call: "call".to_owned(), ..ToolResult::default() };
        let stored = claim.lease.tool_result(Some("tool"), &result).await;
        if self.kept(stored) {
            self.held.push(claim);
        }
    }

    async fn end_some(&mut self) {
        let mut endings: Vec<(Ending, i32, &'static str)> = Vec::new();
        for _ in 0..self.rng.random_range(1..4) {
            let Some(Claim { lease, .. }) = self.take() else { break };
            let attempt = lease.attempt();
            endings.push(match self.rng.random_range(0..10) {
                0..6 => (lease.complete("done".to_owned(), None), attempt, "completed"),
                6..8 => {
                    (lease.fail(FailureKind::Tool, "broken".to_owned(), None), attempt, "failed")
                }
                8 => (lease.release(), attempt, "released"),
                _ => (lease.release_for(Duration::from_millis(200)), attempt, "released"),
            });
        }
        self.write(endings).await;
    }

    async fn write(&mut self, endings: Vec<(Ending, i32, &'static str)>) {
        let (endings, ends): (Vec<_>, Vec<_>) = endings
            .into_iter()
            .map(|(ending, attempt, how)| {
                let task = ending.task();
                (ending, (task, attempt, how))
            })
            .unzip();
        let lost = if self.one_in(2) {
            self.world.store.end(&endings).await.unwrap()
        } else {
            self.end_and_claim(endings).await
        };
        for (task, attempt, how) in ends {
            if lost.contains(&task) {
                self.ledger.count("leases lost");
            } else {
                self.ledger.count(how);
                self.ledger.ended.lock().unwrap().push((task, attempt, how));
            }
        }
    }

    async fn end_and_claim(&mut self, mut left: Vec<Ending>) -> Vec<TaskId> {
        let mut lost = Vec::new();
        while !left.is_empty() {
            let end_and_claim = self.worker.end_and_claim(&left, 1).await.unwrap();
            lost.extend(end_and_claim.unwritten.lost);
            for _ in &end_and_claim.claims {
                self.ledger.count("turned over");
            }
            self.held.extend(end_and_claim.claims);
            left.retain(|ending| end_and_claim.unwritten.busy.contains(&ending.task()));
        }
        lost
    }

    /// A parent spawns children and waits for some of them.
    async fn delegate(&mut self) {
        let Some(claim) = self.take() else { return };
        if claim.assignment.depth.0 >= 3 {
            self.held.push(claim);
            return;
        }
        let mut children = vec![queued(); self.rng.random_range(1..4)];
        if children.len() > 1 && self.one_in(2) {
            children[1].depends_on.push(Dependency::InBatch(0));
        }
        let spawned = match claim.lease.spawn(&children, None).await {
            Ok(spawned) => spawned,
            Err(Error::LeaseLost(_)) => return self.ledger.count("leases lost"),
            Err(error) => panic!("delegate: {error:?}"),
        };
        self.ledger.count("delegated");
        let session = claim.lease.session();
        self.ledger
            .spawned
            .lock()
            .unwrap()
            .extend(spawned.iter().map(|task| (session, task.number, task.id)));
        let waiting_for = if self.one_in(3) { WaitMode::Any } else { WaitMode::All };
        let attempt = claim.lease.attempt();
        let ending = claim.lease.wait(spawned.iter().map(|task| task.id).collect(), waiting_for);
        self.write(vec![(ending, attempt, "waiting")]).await;
    }

    async fn cancel(&mut self) {
        let Some((_, _, task)) = self.known() else { return };
        if self.world.store.cancel(task).await.unwrap().changed {
            self.ledger.count("cancelled");
            self.ledger.cancelled.lock().unwrap().push(task);
        }
    }

    async fn collect(&mut self) {
        let Some((session, number, task)) = self.known() else { return };
        match self.world.store.collect(session, number, None).await {
            Ok(_) => {
                self.ledger.count("collected");
                self.ledger.collected.lock().unwrap().push(task);
            }
            Err(Error::Refused(refusal))
                if matches!(refusal.code, ErrorCode::TaskNotReady | ErrorCode::TaskNotFound) => {}
            Err(error) => panic!("collect: {error:?}"),
        }
    }

    async fn renew(&mut self) {
        let leases: Vec<_> = self.held.iter().map(|claim| claim.lease.id()).collect();
        let lost = self.worker.renew(&leases).await.unwrap().lost;
        self.held.retain(|claim| !lost.contains(&claim.lease.id()));
    }

    async fn sweep(&mut self) {
        for swept in self.worker.sweep(Duration::ZERO).await.unwrap() {
            self.ledger.count(if swept.ended { "failed as lost" } else { "taken over" });
        }
    }

    /// Lets some lease run out, as if its worker had been stopped.
    async fn expire(&mut self) {
        sqlx::query(
            "update slot set expires_at = now() - interval '1 hour'
             where n = (select n from slot where task is not null order by random() limit 1 for update skip locked)",
        )
        .execute(&self.world.sql)
        .await
        .unwrap();
    }

    fn die_or_come_back(&mut self) {
        std::mem::swap(&mut self.held, &mut self.dead);
        self.ledger.count("deaths and returns");
    }

    async fn change_cap(&mut self) {
        let cap = self.rng.random_range(3..30);
        self.ledger.cap_changes_begun.fetch_add(1, Ordering::SeqCst);
        self.world.store.set_cap(cap).await.unwrap();
        self.ledger.cap_changes_done.fetch_add(1, Ordering::SeqCst);
        self.ledger.count("cap changes");
    }
}
