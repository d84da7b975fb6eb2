//! The `adjutant` command.

mod adopt_cap;
mod cli;
mod client;
mod commands;
mod config;
mod exit;
mod fleet_log;
mod logs;
mod moment;
mod open_files;
mod otlp;
mod output;
mod private_postgres;
mod running;
mod signals;
mod simulation;
mod table;
mod telemetry;
mod worker_processes;
mod worker_setup;

use std::process::ExitCode;

use clap::FromArgMatches;

use crate::cli::{Cli, Command};
use crate::exit::report;
use crate::output::note;
use crate::signals::interruptible;

fn main() -> ExitCode {
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            note!("adjutant: cannot start the runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let cli = Cli::from_arg_matches(&Cli::with_groups().get_matches())
        .unwrap_or_else(|error| error.exit());
    let code = runtime.block_on(run(cli.command)).unwrap_or_else(|error| report(&error));
    // A task that blocks its thread must not keep the process alive.
    runtime.shutdown_background();
    code
}

async fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Up(arguments) => commands::up::run(arguments).await,
        Command::Serve(arguments) => commands::serve::run(arguments).await,
        Command::Work(arguments) => commands::work::run(arguments).await,
        Command::Mcp(arguments) => commands::mcp::run(arguments).await,
        Command::Demo(arguments) => interruptible(commands::demo::run(arguments)).await,
        Command::Agents(arguments) => commands::agents::run(arguments).await,
        Command::Spawn(arguments) => commands::spawn::run(arguments).await,
        Command::Wait(arguments) => commands::wait::run(arguments).await,
        Command::Collect(arguments) => commands::collect::run(arguments).await,
        Command::Read(arguments) => commands::read::run(arguments).await,
        Command::Cancel(arguments) => commands::cancel::run(arguments).await,
        Command::Raise(arguments) => commands::raise::run(arguments).await,
        Command::Context(arguments) => commands::context::run(arguments).await,
        Command::Status(arguments) => commands::status::run(arguments).await,
        Command::Tasks(arguments) => commands::tasks::run(arguments).await,
        Command::Watch(arguments) => commands::watch::run(arguments).await,
        Command::Sessions(arguments) => commands::sessions::run(arguments).await,
        Command::Webhooks(arguments) => commands::webhooks::run(arguments).await,
        Command::Keys(arguments) => commands::keys::run(arguments).await,
        Command::Limits(arguments) => commands::limits::run(arguments).await,
        Command::Audit(arguments) => commands::audit::run(arguments).await,
        Command::Tenants(arguments) => commands::tenants::run(arguments).await,
        Command::Doctor(arguments) => commands::doctor::run(arguments).await,
        Command::Config(arguments) => commands::config::run(&arguments).await,
        Command::Migrate(arguments) => commands::migrate::run(arguments).await,
        Command::Postgres(arguments) => commands::postgres::run(arguments).await,
        Command::ScriptModel(arguments) => commands::script_model::run(arguments).await,
        Command::Bench(arguments) => interruptible(commands::bench::run(arguments)).await,
        Command::Completions(arguments) => commands::completions::run(&arguments),
    }
}
