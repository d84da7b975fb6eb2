//! Logs for people: time, level, message.

use std::fmt;

use adjutant_worker::payloads::TARGET as PAYLOADS;
use chrono::Local;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Shows only the message, which has the important fields in it. Debug events and payloads are
/// shown with all fields.
pub struct BriefFormat;

impl<S, N> FormatEvent<S, N> for BriefFormat
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
            write!(writer, "\x1b[{}m{level:>5}\x1b[0m ", color(level))?;
        } else {
            write!(writer, "{level:>5} ")?;
        }
        let is_payload = event.metadata().target() == PAYLOADS;
        let mut message = Message::default();
        event.record(&mut message);
        match message.0 {
            Some(message) if level <= Level::INFO && !is_payload => {
                message.chars().try_for_each(|c| write_plain(&mut writer, c))?;
            }
            Some(_) | None => context.format_fields(writer.by_ref(), event)?,
        }
        writeln!(writer)
    }
}

fn color(level: Level) -> u8 {
    match level {
        Level::ERROR => 31,
        Level::WARN => 33,
        Level::INFO => 32,
        Level::DEBUG => 34,
        Level::TRACE => 35,
    }
}

/// Escapes control characters: errors quote text of others, which must not control the terminal.
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
