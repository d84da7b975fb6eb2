//! Logs for people: when, how grave, what.

use std::fmt;

use chrono::Local;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// The message alone: it has what matters in it, and JSON has the rest. What is said for debugging comes with all its fields.
pub struct Brief;

impl<S, N> FormatEvent<S, N> for Brief
where
    S: Subscriber + for<'s> LookupSpan<'s>,
    N: for<'w> FormatFields<'w> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let level = *event.metadata().level();
        write!(writer, "{} ", Local::now().format("%H:%M:%S%.3f"))?;
        if writer.has_ansi_escapes() {
            write!(writer, "\x1b[{}m{level:>5}\x1b[0m ", colour(level))?;
        } else {
            write!(writer, "{level:>5} ")?;
        }
        let mut message = Message::default();
        event.record(&mut message);
        match message.0 {
            Some(message) if level <= Level::INFO => {
                message.chars().try_for_each(|c| write_plain(&mut writer, c))?;
            }
            Some(_) | None => context.format_fields(writer.by_ref(), event)?,
        }
        writeln!(writer)
    }
}

fn colour(level: Level) -> u8 {
    match level {
        Level::ERROR => 31,
        Level::WARN => 33,
        Level::INFO => 32,
        Level::DEBUG => 34,
        Level::TRACE => 35,
    }
}

/// Errors quote what others sent: that must not move a cursor.
fn write_plain(writer: &mut Writer<'_>, c: char) -> fmt::Result {
    if c.is_control() && c != '\n' && c != '\t' {
        write!(writer, "{}", c.escape_default())
    } else {
        writer.write_char(c)
    }
}

#[derive(Default)]
struct Message(Option<String>);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = Some(format!("{value:?}"));
        }
    }
}
