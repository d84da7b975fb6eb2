//! Which worker or server a line is from, and which task it is about: the ids of the line's spans.

use std::sync::OnceLock;

use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::fields::Fields;

/// The fields of a span that its lines have too.
const OF_SPANS: [&str; 6] =
    ["tenant", "session.id", "task.id", "task.number", "task.attempt", "agent.name"];

/// A span is recorded if it has this field.
pub const MARK: &str = "session.id";

static WORKER: OnceLock<[(&str, Value); 2]> = OnceLock::new();
static SERVER: OnceLock<[(&str, Value); 1]> = OnceLock::new();

/// From now on lines of this process have the worker's id and name.
pub fn set_worker(id: impl ToString, name: &str) {
    // A process has one worker: a second call changes nothing.
    let _ = WORKER.set([("worker.id", id.to_string().into()), ("worker.name", name.into())]);
}

/// From now on lines of this process have the server's name.
pub fn set_server(name: &str) {
    let _ = SERVER.set([("server.name", name.into())]);
}

/// The ids of a span, stored in it.
#[derive(Debug, Default)]
pub struct Ids(Vec<(&'static str, Value)>);

impl Visit for Ids {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.set(field, format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, value.into());
    }
}

impl Ids {
    fn set(&mut self, field: &Field, value: Value) {
        if let Some(name) = OF_SPANS.iter().find(|name| **name == field.name()) {
            self.0.retain(|(known, _)| known != name);
            self.0.push((name, value));
        }
    }
}

/// Adds what the event does not have itself: ids of its spans, the inner ones first, and those of
/// this process. In `up`, lines of the server's crate are from the server.
pub fn add<S>(fields: &mut Fields, event: &Event<'_>, context: &Context<'_, S>)
where
    S: Subscriber + for<'s> LookupSpan<'s>,
{
    for span in context.event_scope(event).into_iter().flatten() {
        if let Some(ids) = span.extensions().get::<Ids>() {
            ids.0.iter().for_each(|(name, value)| fields.add(name, value));
        }
    }
    let target = event.metadata().target();
    let of_server = ["adjutant_server", "adjutant_dialects", "adjutant::fleet_log"];
    let is_of_server = of_server.iter().any(|prefix| target.starts_with(prefix));
    match (WORKER.get(), SERVER.get()) {
        (Some(worker), server) if server.is_none() || !is_of_server => {
            worker.iter().for_each(|(name, value)| fields.add(name, value));
        }
        (_, Some(server)) => server.iter().for_each(|(name, value)| fields.add(name, value)),
        (_, None) => {}
    }
}
