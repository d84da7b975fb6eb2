//! Logs go to standard error.

use anyhow::Context;
use clap::{Args, ValueEnum};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

#[derive(Debug, Args)]
pub struct Logs {
    /// What is logged: a level, or `target=level` pairs as in info,adjutant_worker=debug
    #[arg(long, env = "ADJUTANT_LOG", value_name = "FILTER", default_value = "info,sqlx=error")]
    log: String,

    /// How it is logged
    #[arg(long, env = "ADJUTANT_LOG_FORMAT", value_name = "FORMAT", default_value = "text")]
    log_format: Format,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    Text,
    Json,
}

pub fn begin(arguments: &Logs) -> anyhow::Result<()> {
    let filter: Targets = arguments.log.parse().context("--log, ADJUTANT_LOG: not a filter")?;
    let layer = fmt::layer().with_writer(std::io::stderr);
    let layer = match arguments.log_format {
        Format::Text => {
            layer.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).with_target(false).boxed()
        }
        Format::Json => layer.json().boxed(),
    };
    tracing_subscriber::registry().with(layer.with_filter(filter)).init();
    Ok(())
}
