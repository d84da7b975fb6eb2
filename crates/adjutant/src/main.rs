//! The `adjutant` command.

mod cli;
mod commands;
mod config;
mod crew;
mod logs;
mod open_files;
mod otlp;
mod output;
mod private_postgres;
mod rehearsal;
mod signals;
mod telemetry;
mod worker_processes;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};
use crate::signals::{Interrupted, interruptible};

fn main() -> ExitCode {
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("adjutant: cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let code = runtime.block_on(run(Cli::parse().command)).unwrap_or_else(|error| exit_code(&error));
    // A task that keeps its thread must not keep the process.
    runtime.shutdown_background();
    code
}

async fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Up(arguments) => commands::up::run(arguments).await,
        Command::Serve(arguments) => commands::serve::run(arguments).await,
        Command::Work(arguments) => commands::work::run(arguments).await,
        Command::Limits(arguments) => commands::limits::run(arguments).await,
        Command::Demo(arguments) => interruptible(commands::demo::run(arguments)).await,
        Command::Migrate(arguments) => commands::migrate::run(arguments).await,
        Command::Postgres(arguments) => commands::postgres::run(arguments).await,
        Command::ScriptModel(arguments) => commands::script_model::run(arguments).await,
        Command::Bench(arguments) => interruptible(commands::bench::run(arguments)).await,
        Command::Config(arguments) => commands::config::run(&arguments),
        Command::Completions(arguments) => commands::completions::run(&arguments),
    }
}

fn exit_code(error: &anyhow::Error) -> ExitCode {
    if let Some(Interrupted(name)) = error.downcast_ref() {
        // As a shell has it: 128 and the signal's number.
        return ExitCode::from(match *name {
            "HUP" => 129,
            "INT" => 130,
            _ => 143,
        });
    }
    eprintln!("adjutant: {error:#}");
    ExitCode::FAILURE
}
