//! `adjutant bench`: benchmarks. Each compares Adjutant with plain PostgreSQL in the same run, so
//! that its ratios hold on other machines.

mod api;
mod bare;
mod limits;
mod loops;
mod memory;
mod queue;
mod report;
mod status;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};

/// Run a benchmark on a temporary PostgreSQL
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(Debug, Subcommand)]
enum Benchmark {
    Api(api::Arguments),
    Loops(loops::Arguments),
    Queue(queue::Arguments),
    Status(status::Arguments),
}

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    match arguments.benchmark {
        Benchmark::Api(arguments) => api::run(&arguments).await?,
        Benchmark::Loops(arguments) => loops::run(&arguments).await?,
        Benchmark::Queue(arguments) => queue::run(&arguments).await?,
        Benchmark::Status(arguments) => status::run(&arguments).await?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A spinner with the current step, on standard error.
fn progress() -> anyhow::Result<ProgressBar> {
    let progress = ProgressBar::new_spinner();
    progress.set_style(ProgressStyle::with_template("{spinner} {msg} {elapsed}")?);
    progress.enable_steady_tick(Duration::from_millis(100));
    Ok(progress)
}
