//! Logs go to standard error, one event on each line.

mod brief;

use std::io::IsTerminal;
use std::panic::PanicHookInfo;

use anyhow::Context;
use clap::{Args, ValueEnum};
use tracing::level_filters::LevelFilter;
use tracing::{Metadata, Subscriber};
use tracing_subscriber::filter::{FilterExt, Targets, filter_fn};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, fmt};

use self::brief::BriefFormat;
use crate::telemetry::Payloads;

#[derive(Debug, Args)]
pub struct Logs {
    /// What to log: a level, or target=level pairs such as info,adjutant_worker=debug
    #[arg(long, env = "ADJUTANT_LOG", value_name = "FILTER", default_value = "info,sqlx=error")]
    log: String,

    /// The format of logs: text for people, or JSON with all fields; auto is text on a terminal and
    /// JSON elsewhere
    #[arg(long, env = "ADJUTANT_LOG_FORMAT", value_name = "FORMAT", default_value = "auto")]
    log_format: Format,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    Auto,
    Text,
    Json,
}

impl Logs {
    /// Logs only events, not spans: every event has the ids that it needs.
    pub fn layer<S>(&self, payloads: Payloads) -> anyhow::Result<Box<dyn Layer<S> + Send + Sync>>
    where
        S: Subscriber + for<'s> LookupSpan<'s>,
    {
        let targets: Targets = self.log.parse().context("--log or ADJUTANT_LOG: invalid filter")?;
        let loggable =
            filter_fn(move |metadata| metadata.is_event() && may_be_logged(metadata, payloads))
                .with_max_level_hint(LevelFilter::TRACE);
        let is_terminal = std::io::stderr().is_terminal();
        let layer = fmt::layer().with_writer(std::io::stderr);
        let layer = match (self.log_format, is_terminal) {
            (Format::Text, _) | (Format::Auto, true) => {
                layer.with_ansi(is_terminal).event_format(BriefFormat).boxed()
            }
            (Format::Json, _) | (Format::Auto, false) => layer.json().flatten_event(true).boxed(),
        };
        Ok(layer.with_filter(loggable.and(targets)).boxed())
    }
}

/// Events of other crates may contain the texts of tasks: rmcp logs all messages of servers at
/// info. sqlx logs only statements.
fn may_be_logged(metadata: &Metadata<'_>, payloads: Payloads) -> bool {
    let is_ours = ["adjutant", "sqlx"].iter().any(|prefix| metadata.target().starts_with(prefix));
    is_ours || payloads == Payloads::Logged
}

/// Logs a panic. A formatted message may contain the texts of tasks, so it is left out by default.
pub fn log_panic(panic: &PanicHookInfo<'_>, payloads: Payloads) {
    let message = match (panic.payload().downcast_ref::<&'static str>(), payloads) {
        (Some(message), _) => Some(*message),
        (None, Payloads::Logged) => panic.payload_as_str(),
        (None, Payloads::Omitted) => None,
    };
    let location = panic.location().map(ToString::to_string).unwrap_or_default();
    tracing::error!(
        panic.location = location,
        "panicked at {location}: {}",
        message.unwrap_or("message omitted")
    );
}
