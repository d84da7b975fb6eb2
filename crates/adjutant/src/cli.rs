//! The command line.

use clap::{Parser, Subcommand};

use crate::commands::postgres;

/// Durable delegation for AI agents, on PostgreSQL.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Postgres(postgres::Arguments),
}
