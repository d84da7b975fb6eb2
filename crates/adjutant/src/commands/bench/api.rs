//! `adjutant bench api`: the cost of HTTP calls, compared with plain PostgreSQL.

mod client;
mod cpu;
mod report;
mod server;
mod waits;

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use adjutant_agent::{AgentConfig, AgentDefinition, OnWorkerLoss};
use adjutant_store::{NewSession, Store};
use anyhow::Context;
use clap::Args;
use futures::future::try_join_all;
use indicatif::ProgressBar;
use serde_json::json;

use self::client::{Client, request};
use self::cpu::Processes;
use self::report::{Rate, Report, Statuses};
use self::server::ServeProcess;
use super::limits::{self, Inserts};
use super::progress;
use super::report::Quantiles;
use crate::open_files;
use crate::private_postgres::{DATABASE, DataLocation, PrivatePostgres};

/// Measure spawns, status calls and waits over HTTP
///
/// Runs on a temporary PostgreSQL with fsync on, with one server process and 32 clients on
/// keep-alive connections. The baseline of a spawn is a single committed insert of a row with the
/// columns of a task, by pgbench with as many clients. The last part has 5000 clients that wait.
/// Takes about a minute. Linux only: it reads CPU time and memory from /proc.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  adjutant bench api              prints a table
  adjutant bench api --json       prints one JSON object with stable keys: spawn_vs_insert,
                                  spawn_p99_vs_insert_p99, status_per_cpu_s, wait_wake_p99_ms, wait_mb,
                                  wait_queries_per_s, and the figures behind them
")]
pub struct Arguments {
    /// Print one JSON object
    #[arg(long)]
    json: bool,

    /// For tests: a few calls, too few for meaningful figures
    #[arg(long, hide = true)]
    tiny: bool,
}

const CLIENTS: usize = 32;
const TENANT: &str = "default";
const AGENT: &str = "bench";
/// Tasks that a client spawns in one session before it uses the next session. All of them may be
/// active: a session with a long backlog is a different case.
const PER_SESSION: usize = 50;

/// The duration and the sample sizes of a run.
#[derive(Debug, Clone, Copy)]
struct Size {
    /// Rounds of inserts and spawns. They alternate, so that other load on the machine affects
    /// both.
    rounds: u32,
    round: Duration,
    sessions_per_client: usize,
    status: Duration,
    waits: usize,
    /// How long the queries of waiting clients are counted while no task ends.
    idle: Duration,
}

const FULL: Size = Size {
    rounds: 3,
    round: Duration::from_secs(4),
    sessions_per_client: 100,
    status: Duration::from_secs(5),
    waits: 5000,
    idle: Duration::from_secs(8),
};

const TINY: Size = Size {
    rounds: 1,
    round: Duration::from_secs(1),
    sessions_per_client: 2,
    status: Duration::from_millis(500),
    waits: 20,
    idle: Duration::from_secs(2),
};

pub async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    open_files::raise_limit();
    let size = if arguments.tiny { TINY } else { FULL };
    let progress = progress()?;
    progress.set_message("starting a temporary PostgreSQL");
    let postgres = PrivatePostgres::start(DataLocation::TemporaryDurable).await?;
    let pgbench = limits::pgbench(&postgres)?;
    let url = postgres.url(DATABASE);
    Store::migrate(&url).await?;
    let bench = Bench { store: Store::open(&url, 8).await?, url: &url, size, progress: &progress };
    bench.store.set_cap(0).await?;
    let server = ServeProcess::start(&url).await?;
    // After the start of the server, which removes agents that its config does not have.
    bench.store.publish_agents(&[agent()]).await?;
    let (inserts, spawns) = bench.spawns(&pgbench, server.address()).await?;
    // A status of a task far back in the queue has to count the tasks before it.
    bench.store.delete_unfinished().await?;
    let processes = Processes { one: server.pid()?, parent: postgres.pid()? };
    let statuses = bench.statuses(server.address(), processes).await?;
    server.stop().await?;
    bench.store.delete_unfinished().await?;
    let waits = bench.waits().await?;
    progress.finish_and_clear();
    bench.store.close().await;
    let version = postgres.server_version().to_owned();
    postgres.stop().await?;
    Report::new(inserts, spawns, statuses, waits, version).print(arguments.json)
}

struct Bench<'a> {
    store: Store,
    url: &'a str,
    size: Size,
    progress: &'a ProgressBar,
}

impl Bench<'_> {
    fn show_step(&self, step: &str) {
        self.progress.set_message(step.to_owned());
    }

    /// The rates and latencies of inserts and of spawns.
    async fn spawns(&self, pgbench: &Path, server: SocketAddr) -> anyhow::Result<(Rate, Rate)> {
        const WARM_UP: Duration = Duration::from_millis(500);
        self.show_step("creating sessions");
        let mut spawners = self.spawners(server).await?;
        spawn_for(&mut spawners, WARM_UP).await?;
        self.store.fill_yardstick(0).await?;
        let (mut inserts, mut spawns) = (Vec::new(), Vec::new());
        let (mut insert_times, mut spawn_times) = (Vec::new(), Vec::new());
        for round in 1..=self.size.rounds {
            self.show_step(&format!(
                "single inserts (pgbench), round {round} of {}",
                self.size.rounds
            ));
            self.store.checkpoint().await?;
            let Inserts { per_s, times } =
                limits::insert(pgbench, self.url, CLIENTS, self.size.round.as_secs()).await?;
            inserts.push(per_s);
            insert_times.extend(times);
            self.show_step(&format!("spawns, round {round} of {}", self.size.rounds));
            self.store.checkpoint().await?;
            let began = Instant::now();
            let times = spawn_for(&mut spawners, self.size.round).await?;
            spawns.push(per_second(times.len(), began.elapsed()));
            spawn_times.extend(times);
        }
        self.store.drop_yardstick().await?;
        Ok((Rate::of(&inserts, insert_times), Rate::of(&spawns, spawn_times)))
    }

    async fn spawners(&self, server: SocketAddr) -> anyhow::Result<Vec<Spawner>> {
        let arguments = json!({
            "action": "spawn", "agent": AGENT, "task": "0123456789abcdef".repeat(64), "queue": true,
        });
        let spawner = async || {
            let mut requests = Vec::new();
            for _ in 0..self.size.sessions_per_client {
                requests.push(request(server, &self.session().await?, &arguments));
            }
            anyhow::Ok(Spawner { client: Client::connect(server).await?, requests, spawned: 0 })
        };
        try_join_all((0..CLIENTS).map(|_| spawner())).await
    }

    async fn session(&self) -> anyhow::Result<String> {
        let name = uuid::Uuid::now_v7().to_string();
        let new = NewSession {
            tenant: TENANT.to_owned(),
            name: name.clone(),
            max_active: Some(i32::try_from(PER_SESSION)?),
            // On a fast machine the sessions are used more than once.
            max_queued: Some(1_000_000),
            ..NewSession::default()
        };
        self.store.create_session(&new).await?;
        Ok(name)
    }

    /// Status calls of queued tasks, as an orchestrator makes them that polls.
    async fn statuses(&self, server: SocketAddr, processes: Processes) -> anyhow::Result<Statuses> {
        self.show_step("status calls");
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            let session = self.session().await?;
            let mut client = Client::connect(server).await?;
            let spawn = json!({"action": "spawn", "agent": AGENT, "task": "wait", "queue": true});
            client.call(&request(server, &session, &spawn)).await?;
            let status = request(server, &session, &json!({"action": "status", "task_id": "t_01"}));
            clients.push((client, status));
        }
        self.store.checkpoint().await?;
        let (before, began) = (processes.cpu()?, Instant::now());
        let until = began + self.size.status;
        let polling = clients.iter_mut().map(|(client, status)| async move {
            let mut times = Vec::new();
            while Instant::now() < until {
                let sent = Instant::now();
                client.call(status).await?;
                times.push(sent.elapsed());
            }
            anyhow::Ok(times)
        });
        let times = try_join_all(polling).await?.concat();
        let cpu = processes.cpu()? - before;
        Ok(Statuses {
            per_cpu_s: per_second(times.len(), cpu),
            per_s: per_second(times.len(), began.elapsed()),
            cpu_s: cpu.as_secs_f64(),
            time: Quantiles::of(times),
        })
    }
}

/// A client with its prepared requests.
struct Spawner {
    client: Client,
    /// One request for each of its sessions.
    requests: Vec<Vec<u8>>,
    spawned: usize,
}

impl Spawner {
    async fn spawn(&mut self) -> anyhow::Result<Duration> {
        let index = self.spawned / PER_SESSION % self.requests.len();
        let request = self.requests.get(index).context("a client has no session")?;
        let began = Instant::now();
        self.client.call(request).await?;
        self.spawned += 1;
        Ok(began.elapsed())
    }
}

/// Spawns with all clients concurrently and returns the latency of each call.
async fn spawn_for(spawners: &mut [Spawner], time: Duration) -> anyhow::Result<Vec<Duration>> {
    let until = Instant::now() + time;
    let spawning = spawners.iter_mut().map(|spawner| async move {
        let mut times = Vec::new();
        while Instant::now() < until {
            times.push(spawner.spawn().await?);
        }
        anyhow::Ok(times)
    });
    Ok(try_join_all(spawning).await?.concat())
}

fn agent() -> AgentDefinition {
    AgentDefinition {
        name: AGENT.to_owned(),
        description: "Takes part in a measurement".to_owned(),
        on_worker_loss: OnWorkerLoss::default(),
        tenants: None,
        config: AgentConfig {
            system_prompt: "You take part in a measurement.".to_owned(),
            model: "none".to_owned(),
            ..AgentConfig::default()
        },
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts in a benchmark are far below 2^52")]
fn per_second(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}
