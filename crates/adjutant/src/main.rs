//! The `adjutant` command.

mod cli;
mod commands;
mod output;
mod private_postgres;
mod signals;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};
use crate::signals::{Interrupted, interruptible};

#[tokio::main]
async fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Up(arguments) => commands::up::run(arguments).await,
        Command::Demo(arguments) => interruptible(commands::demo::run(arguments)).await,
        Command::Migrate(arguments) => commands::migrate::run(arguments).await,
        Command::Postgres(arguments) => commands::postgres::run(arguments).await,
        Command::Bench(arguments) => interruptible(commands::bench::run(arguments)).await,
        Command::Completions(arguments) => commands::completions::run(&arguments),
    };
    done.unwrap_or_else(|error| {
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
    })
}
