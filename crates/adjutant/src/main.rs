//! The `adjutant` command.

mod cli;
mod commands;
mod output;
mod private_postgres;
mod signals;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};

#[tokio::main]
async fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Up(arguments) => commands::up::run(arguments).await,
        Command::Demo(arguments) => commands::demo::run(arguments).await,
        Command::Migrate(arguments) => commands::migrate::run(arguments).await,
        Command::Postgres(arguments) => commands::postgres::run(arguments).await,
        Command::Bench(arguments) => commands::bench::run(arguments).await,
        Command::Completions(arguments) => Ok(commands::completions::run(&arguments)),
    };
    done.unwrap_or_else(|error| {
        eprintln!("adjutant: {error:#}");
        ExitCode::FAILURE
    })
}
