//! The `adjutant` command.

mod cli;
mod commands;
mod private_postgres;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};

#[tokio::main]
async fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Postgres(arguments) => commands::postgres::run(arguments).await,
    };
    done.unwrap_or_else(|error| {
        eprintln!("adjutant: {error:#}");
        ExitCode::FAILURE
    })
}
