//! Logs go to standard error, one event on each line.

mod context;
mod fields;
mod line;
mod repeats;

use std::panic::PanicHookInfo;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use serde_json::Value;
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Filter};
use tracing_subscriber::registry::LookupSpan;

pub use context::{set_server, set_worker};

use self::context::Ids;
use self::fields::Fields;
use self::line::LineFormat;
use self::repeats::Repeats;
use crate::output::{stderr_is_terminal, write_log};
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
    pub fn layer<S>(&self, payloads: Payloads) -> anyhow::Result<Box<dyn Layer<S> + Send + Sync>>
    where
        S: Subscriber + for<'s> LookupSpan<'s>,
    {
        let targets: Targets = self.log.parse().context("--log or ADJUTANT_LOG: invalid filter")?;
        let format = match (self.log_format, stderr_is_terminal()) {
            (Format::Text, false) => LineFormat::Text,
            (Format::Text | Format::Auto, true) => LineFormat::ColoredText,
            (Format::Json | Format::Auto, false) => LineFormat::Json,
            (Format::Json, true) => LineFormat::JsonOnTerminal,
        };
        let lines = Lines { format, repeats: Mutex::default() };
        Ok(lines.with_filter(Loggable { targets, payloads }).boxed())
    }
}

/// Writes events as lines, with the ids of their spans.
struct Lines {
    format: LineFormat,
    repeats: Mutex<Repeats>,
}

impl<S> Layer<S> for Lines
where
    S: Subscriber + for<'s> LookupSpan<'s>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut ids = Ids::default();
        attributes.record(&mut ids);
        span.extensions_mut().insert(ids);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(ids) = span.extensions_mut().get_mut::<Ids>() {
            values.record(ids);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let (metadata, mut fields) = (event.metadata(), Fields::default());
        event.record(&mut fields);
        context::add(&mut fields, event, &context);
        if *metadata.level() <= Level::WARN {
            let mut repeats = self.repeats.lock().unwrap_or_else(PoisonError::into_inner);
            let tenant = fields.get("tenant").and_then(Value::as_str).unwrap_or_default();
            let admitted = repeats.admit(tenant, &fields.message, Instant::now());
            let Some(message) = admitted else { return };
            fields.message = message;
        }
        write_log(&(self.format.line(metadata, &fields) + "\n"));
    }
}

/// The spans whose ids lines have, whatever the level, and the events that the operator wants.
struct Loggable {
    targets: Targets,
    payloads: Payloads,
}

impl Loggable {
    fn is_wanted(&self, metadata: &Metadata<'_>) -> bool {
        if metadata.is_span() {
            metadata.target().starts_with("adjutant")
                && *metadata.level() <= Level::DEBUG
                && metadata.fields().field(context::MARK).is_some()
        } else {
            may_be_logged(metadata, self.payloads)
                && self.targets.would_enable(metadata.target(), metadata.level())
        }
    }
}

impl<S> Filter<S> for Loggable {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        self.is_wanted(metadata)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.is_wanted(metadata) { Interest::always() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let events = Filter::<S>::max_level_hint(&self.targets).unwrap_or(LevelFilter::TRACE);
        Some(events.max(LevelFilter::DEBUG))
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
