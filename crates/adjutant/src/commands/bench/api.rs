//! `adjutant bench api`: what calls over HTTP cost, beside what PostgreSQL itself can do.

mod client;
mod cpu;
mod report;
mod server;
mod waits;

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use adjutant_agent::{AgentDefinition, AgentSpec, OnWorkerLoss};
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

/// Calls over HTTP: what a spawn and a status cost, and thousands that wait
///
/// Everything runs on a throwaway PostgreSQL with fsync on, with one server process and 32 clients that keep their
/// connections. What a spawn is held against is pgbench's single committed insert of a row with the columns of a task, with
/// as many clients. Takes about a minute. Linux only: CPU time and memory are read from /proc.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  adjutant bench api              the table
  adjutant bench api --json       one object with stable keys: spawn_vs_insert, spawn_p99_vs_insert_p99,
                                  status_per_cpu_s, wait_wake_p99_ms, wait_mb, wait_queries_per_s, and
                                  what they come from
")]
pub struct Arguments {
    /// Print one JSON object
    #[arg(long)]
    json: bool,

    /// For tests: a few calls, whose figures mean nothing
    #[arg(long, hide = true)]
    tiny: bool,
}

const CLIENTS: usize = 32;
const TENANT: &str = "default";
const AGENT: &str = "bench";
/// Tasks of a session before its client goes on with the next. All of them may be active: a session that has room for its
/// tasks is the plain case, and a long backlog of one is not what is measured.
const PER_SESSION: usize = 50;

/// How much is measured.
#[derive(Debug, Clone, Copy)]
struct Size {
    /// Inserts and spawns take turns, so that whatever else happens on this machine happens to both.
    rounds: u32,
    round: Duration,
    sessions_per_client: usize,
    status: Duration,
    waits: usize,
    /// How long nothing happens.
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
    progress.set_message("starting a throwaway PostgreSQL");
    let postgres = PrivatePostgres::start(DataLocation::TemporaryDurable).await?;
    let pgbench = limits::pgbench(&postgres)?;
    let url = postgres.url(DATABASE);
    Store::migrate(&url).await?;
    let bench = Bench { store: Store::open(&url, 8).await?, url: &url, size, progress: &progress };
    bench.store.set_cap(0).await?;
    let server = ServeProcess::start(&url).await?;
    // Only now: those of a config that has none go when a process with it starts.
    bench.store.publish_agents(&[agent()]).await?;
    let (inserts, spawns) = bench.spawns(&pgbench, server.address()).await?;
    // Where a task is in a long line is not what a status is measured by either.
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
    fn say(&self, what: &str) {
        self.progress.set_message(what.to_owned());
    }

    /// Inserts and spawns a second, and how long each takes.
    async fn spawns(&self, pgbench: &Path, server: SocketAddr) -> anyhow::Result<(Rate, Rate)> {
        const WARM_UP: Duration = Duration::from_millis(500);
        self.say("sessions");
        let mut spawners = self.spawners(server).await?;
        spawn_for(&mut spawners, WARM_UP).await?;
        self.store.fill_yardstick(0).await?;
        let (mut inserts, mut spawns) = (Vec::new(), Vec::new());
        let (mut insert_times, mut spawn_times) = (Vec::new(), Vec::new());
        for round in 1..=self.size.rounds {
            self.say(&format!("single inserts by pgbench, {round} of {}", self.size.rounds));
            self.store.checkpoint().await?;
            let Inserts { per_s, times } =
                limits::insert(pgbench, self.url, CLIENTS, self.size.round.as_secs()).await?;
            inserts.push(per_s);
            insert_times.extend(times);
            self.say(&format!("spawns, {round} of {}", self.size.rounds));
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
            // For when the sessions do not suffice, and their turn comes again.
            max_queued: Some(1_000_000),
            ..NewSession::default()
        };
        self.store.create_session(&new).await?;
        Ok(name)
    }

    /// Statuses of tasks that are queued, as an orchestrator asks that has nothing better to do.
    async fn statuses(&self, server: SocketAddr, processes: Processes) -> anyhow::Result<Statuses> {
        self.say("statuses");
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
        let asking = clients.iter_mut().map(|(client, status)| async move {
            let mut times = Vec::new();
            while Instant::now() < until {
                let asked = Instant::now();
                client.call(status).await?;
                times.push(asked.elapsed());
            }
            anyhow::Ok(times)
        });
        let times = try_join_all(asking).await?.concat();
        let cpu = processes.cpu()? - before;
        Ok(Statuses {
            per_cpu_s: per_second(times.len(), cpu),
            per_s: per_second(times.len(), began.elapsed()),
            cpu_s: cpu.as_secs_f64(),
            time: Quantiles::of(times),
        })
    }
}

/// One client, and what it sends.
struct Spawner {
    client: Client,
    /// One for each of its sessions.
    requests: Vec<Vec<u8>>,
    spawned: usize,
}

impl Spawner {
    async fn spawn(&mut self) -> anyhow::Result<Duration> {
        let turn = self.spawned / PER_SESSION % self.requests.len();
        let request = self.requests.get(turn).context("a client without a session")?;
        let began = Instant::now();
        self.client.call(request).await?;
        self.spawned += 1;
        Ok(began.elapsed())
    }
}

/// All of them at once, for a while; how long each call took.
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
        spec: AgentSpec {
            system_prompt: "You take part in a measurement.".to_owned(),
            model: "none".to_owned(),
            ..AgentSpec::default()
        },
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts in a benchmark are far below 2^52")]
fn per_second(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}
