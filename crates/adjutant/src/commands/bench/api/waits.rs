//! Thousands of clients that wait on one server, each for a task in its own session: the cost while
//! no task ends, and the latency when tasks end.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use adjutant_dialects::spec::LONGEST_WAIT;
use adjutant_store::{NewSession, NewTask};
use anyhow::{Context, ensure};
use chrono::{DateTime, Utc};
use futures::future::try_join_all;
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use super::super::memory::{PeakMemory, resident_kib};
use super::super::report::Quantiles;
use super::client::{Client, request};
use super::report::Waits;
use super::server::ServeProcess;
use super::{AGENT, Bench, TENANT, per_second};
use crate::worker_processes::{WorkerKind, WorkerProcess};

/// Tasks that run concurrently. They take 100 ms on average, so 250 end per second.
const CAP: u16 = 25;
/// How many sessions are created and clients are connected concurrently.
const AT_ONCE: usize = 64;
/// Long enough for the server to register all waits, and for a new worker to learn that clients
/// wait.
const SETTLE: Duration = Duration::from_secs(3);

impl Bench<'_> {
    pub(super) async fn waits(&self) -> anyhow::Result<Waits> {
        self.show_step("creating tasks to wait for");
        let sessions = self.sessions_with_a_task(self.size.waits).await?;
        let server = ServeProcess::start(self.url).await?;
        self.warm_up(server.address()).await?;
        self.store.checkpoint().await?;
        let before = resident_kib(server.pid()?)?;
        let peak = PeakMemory::watch(server.pid()?)?;

        self.show_step(&format!("starting {} waits", self.size.waits));
        let begin = |session: String| begin(server.address(), session);
        let waiting: Vec<TaskWait> =
            stream::iter(sessions).map(begin).buffered(AT_ONCE).try_collect().await?;
        tokio::time::sleep(SETTLE).await;
        self.show_step("queries while no task ends");
        let queries_per_s = self.queries_per_s().await?;
        ensure!(
            !waiting.iter().any(|wait| wait.is_finished()),
            "a wait returned before its task ended"
        );

        self.show_step("waits end");
        let worker = WorkerProcess::start(self.url, CAP, WorkerKind::Simulated).await?;
        tokio::time::sleep(SETTLE).await;
        let began = Instant::now();
        self.store.set_cap(CAP.into()).await?;
        let woken = try_join_all(waiting).await?;
        let elapsed = began.elapsed();
        let times = woken.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
        worker.stop().await?;
        let peak = peak.kib();
        server.stop().await?;
        Ok(Waits {
            waits: times.len(),
            finishes_per_s: per_second(times.len(), elapsed),
            wake: Quantiles::of(times),
            queries_per_s,
            mb: mb(peak.saturating_sub(before)),
            rss_before_mb: mb(before),
        })
    }

    /// Makes the server open its database connections and allocate the buffers of calls.
    async fn warm_up(&self, server: SocketAddr) -> anyhow::Result<()> {
        let session = self.session().await?;
        let list = request(server, &session, &json!({"action": "list_agents"}));
        let wait = request(server, &session, &json!({"action": "wait", "timeout_s": 0}));
        try_join_all((0..AT_ONCE).map(async |_| {
            let mut client = Client::connect(server).await?;
            client.call(&list).await?;
            client.call(&wait).await?;
            anyhow::Ok(())
        }))
        .await?;
        Ok(())
    }

    async fn sessions_with_a_task(&self, count: usize) -> anyhow::Result<Vec<String>> {
        let make = async |nth: usize| {
            let name = uuid::Uuid::now_v7().to_string();
            let new = NewSession {
                tenant: TENANT.to_owned(),
                name: name.clone(),
                ..NewSession::default()
            };
            let session = self.store.create_session(&new).await?.id;
            self.store.spawn(session, &[task(nth)], None).await?;
            anyhow::Ok(name)
        };
        stream::iter(0..count).map(make).buffered(AT_ONCE).try_collect().await
    }

    /// The queries per second of the server; those of this connection are not counted.
    async fn queries_per_s(&self) -> anyhow::Result<f64> {
        let (mut seen, began) = (HashSet::new(), Instant::now());
        let mut at_first = None;
        while began.elapsed() < self.size.idle {
            seen.extend(self.store.last_queries().await?);
            at_first.get_or_insert(seen.len());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(per_second(seen.len() - at_first.unwrap_or_default(), began.elapsed()))
    }
}

/// A wait that returns the time from the end of its task to the answer.
type TaskWait = AbortOnDropHandle<anyhow::Result<Duration>>;

async fn begin(server: SocketAddr, session: String) -> anyhow::Result<TaskWait> {
    let mut client = Client::connect(server).await?;
    let wait = json!({"action": "wait", "task_ids": ["t_01"], "timeout_s": LONGEST_WAIT.as_secs()});
    let wait = request(server, &session, &wait);
    Ok(AbortOnDropHandle::new(tokio::spawn(async move {
        loop {
            let answer: Value = serde_json::from_slice(client.call(&wait).await?)?;
            let now = Utc::now();
            if answer["timed_out"] == false {
                let ended = answer["tasks"][0]["completed_at"].as_str();
                let ended: DateTime<Utc> =
                    ended.context("the answer of a wait has no completed_at")?.parse()?;
                return Ok((now - ended).to_std().unwrap_or_default());
            }
        }
    })))
}

/// A task of 20 to 180 ms, 100 on average, so that not all tasks end at the same time.
fn task(nth: usize) -> NewTask {
    let config = json!({"simulation": {"work_ms": 20 + nth * 37 % 161}});
    NewTask {
        agent: AGENT.to_owned(),
        assignment: "wait".to_owned(),
        config: config.as_object().cloned().unwrap_or_default(),
        ..NewTask::default()
    }
}

#[expect(clippy::cast_precision_loss, reason = "sizes in a benchmark are far below 2^52")]
fn mb(kib: u64) -> f64 {
    kib as f64 * 1024.0 / 1e6
}
