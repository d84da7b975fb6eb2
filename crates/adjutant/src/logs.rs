//! Logs go to standard error, one event a line.

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

use self::brief::Brief;
use crate::telemetry::Payloads;

#[derive(Debug, Args)]
pub struct Logs {
    /// What is logged: a level, or `target=level` pairs as in info,adjutant_worker=debug
    #[arg(long, env = "ADJUTANT_LOG", value_name = "FILTER", default_value = "info,sqlx=error")]
    log: String,

    /// How it is logged: as text for people, or with all its fields as JSON; auto is text on a terminal, and else JSON
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
    /// Of spans it says nothing: every event has the ids that it needs.
    pub fn layer<S>(&self, payloads: Payloads) -> anyhow::Result<Box<dyn Layer<S> + Send + Sync>>
    where
        S: Subscriber + for<'s> LookupSpan<'s>,
    {
        let targets: Targets = self.log.parse().context("--log, ADJUTANT_LOG: not a filter")?;
        let sayable = filter_fn(move |metadata| metadata.is_event() && may_be_said(metadata, payloads))
            .with_max_level_hint(LevelFilter::TRACE);
        let is_terminal = std::io::stderr().is_terminal();
        let layer = fmt::layer().with_writer(std::io::stderr);
        let layer = match (self.log_format, is_terminal) {
            (Format::Text, _) | (Format::Auto, true) => {
                layer.with_ansi(is_terminal).event_format(Brief).boxed()
            }
            (Format::Json, _) | (Format::Auto, false) => layer.json().flatten_event(true).boxed(),
        };
        Ok(layer.with_filter(sayable.and(targets)).boxed())
    }
}

/// What other crates log may have texts of tasks in it: rmcp has all that servers say, at info. sqlx has only statements.
fn may_be_said(metadata: &Metadata<'_>, payloads: Payloads) -> bool {
    let is_ours = ["adjutant", "sqlx"].iter().any(|prefix| metadata.target().starts_with(prefix));
    is_ours || payloads == Payloads::Logged
}

/// A panic is an event too. A text that was put together for it may have anything in it; who catches it has it.
pub fn log_panic(panic: &PanicHookInfo<'_>, payloads: Payloads) {
    let said = match (panic.payload().downcast_ref::<&'static str>(), payloads) {
        (Some(said), _) => Some(*said),
        (None, Payloads::Logged) => panic.payload_as_str(),
        (None, Payloads::LeftOut) => None,
    };
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    tracing::error!(
        panic.place = place,
        "panicked at {place}: {}",
        said.unwrap_or("for a reason not told here")
    );
}
