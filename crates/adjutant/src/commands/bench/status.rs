//! `adjutant bench status`: how the length of the history affects status queries.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use adjutant_agent::TaskNumber;
use adjutant_store::Store;
use clap::Args;
use serde::Serialize;

use super::progress;
use crate::output::{print_json, print_line};
use crate::private_postgres::{DATABASE, DataLocation, PrivatePostgres};

/// Measure how the length of the history affects status queries
///
/// Fills a temporary database with finished tasks. 8 connections then query the status of random
/// tasks, first with a short history, then with a long one.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  adjutant bench status                     10,000 and 1,000,000 tasks; takes 90 seconds and 4 GB of disk
  adjutant bench status --long 100000       a shorter run
")]
pub struct Arguments {
    /// Tasks in the short history
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(i64).range(100..))]
    short: i64,

    /// Tasks in the long history
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(i64).range(100..))]
    long: i64,

    /// Seconds to measure at each length
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,

    /// Print one JSON object: status_per_s_short, status_per_s_long, status_history_ratio
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    tasks_short: i64,
    tasks_long: i64,
    status_per_s_short: f64,
    status_per_s_long: f64,
    status_history_ratio: f64,
}

const CONNECTIONS: u32 = 8;

pub async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let progress = progress()?;
    progress.set_message("starting a temporary PostgreSQL");
    let postgres = PrivatePostgres::start(DataLocation::Temporary).await?;
    let url = postgres.url(DATABASE);
    Store::migrate(&url).await?;
    let store = Store::open(&url, CONNECTIONS).await?;

    let mut rates = Vec::new();
    for tasks in [arguments.short, arguments.long] {
        progress.set_message(format!("adding a history of {tasks} tasks"));
        store.add_history(tasks).await?;
        progress.set_message(format!("measuring with {tasks} tasks"));
        // The first round warms the caches.
        status_rate(&store, Duration::from_secs(arguments.seconds).min(Duration::from_secs(5)))
            .await?;
        rates.push(status_rate(&store, Duration::from_secs(arguments.seconds)).await?);
    }
    progress.finish_and_clear();
    store.close().await;
    postgres.stop().await?;
    let report = Report {
        tasks_short: arguments.short,
        tasks_long: arguments.long,
        status_per_s_short: rates[0],
        status_per_s_long: rates[1],
        status_history_ratio: rates[1] / rates[0],
    };
    if arguments.json {
        return print_json(&serde_json::to_string(&report)?);
    }
    print_line(format!("{:>12}  {:>12}", "tasks", "status/s"))?;
    for (tasks, rate) in [arguments.short, arguments.long].into_iter().zip(rates) {
        print_line(format!("{tasks:>12}  {rate:>12.0}"))?;
    }
    print_line(format!("{:>12}  {:>12.3}", "ratio", report.status_history_ratio))
}

/// Status queries per second, for random tasks, from all connections.
async fn status_rate(store: &Store, time: Duration) -> anyhow::Result<f64> {
    let (sessions, per_session) = store.history_sessions().await?;
    let sessions = Arc::new(sessions);
    let answered = Arc::new(AtomicU64::new(0));
    let start = Instant::now();
    let mut clients = Vec::new();
    for client in 0..u64::from(CONNECTIONS) {
        let (store, sessions, answered) = (store.clone(), sessions.clone(), answered.clone());
        clients.push(tokio::spawn(async move {
            let mut random = Random(client + 1);
            while start.elapsed() < time {
                let session = sessions[random.below(sessions.len() as u64)];
                let number = i32::try_from(random.below(u64::from(per_session.unsigned_abs())))
                    .unwrap_or(0)
                    + 1;
                store.status(session, TaskNumber(number)).await?;
                answered.fetch_add(1, Ordering::Relaxed);
            }
            anyhow::Ok(())
        }));
    }
    for client in clients {
        client.await??;
    }
    #[expect(
        clippy::cast_precision_loss,
        reason = "a count of answers in seconds is far below 2^52"
    )]
    Ok(answered.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64())
}

/// A xorshift generator: the choice of tasks must only be spread evenly.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit).unwrap_or(0)
    }
}
