//! The command line.

use clap::{Parser, Subcommand};

use crate::commands::{
    bench, completions, config, demo, limits, migrate, postgres, script_model, serve, up, work,
};

/// Durable delegation for AI agents, on PostgreSQL.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Up(up::Arguments),
    Serve(serve::Arguments),
    Work(work::Arguments),
    Limits(limits::Arguments),
    Demo(demo::Arguments),
    Migrate(migrate::Arguments),
    Postgres(postgres::Arguments),
    ScriptModel(script_model::Arguments),
    Bench(bench::Arguments),
    Config(config::Arguments),
    Completions(completions::Arguments),
}
