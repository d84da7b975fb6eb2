//! The fields of one log event.

use serde_json::Value;
use tracing::field::{Field, Visit};

/// The message of an event and its other fields, in their order.
#[derive(Debug, Default)]
pub struct Fields {
    pub message: String,
    pub others: Vec<(&'static str, Value)>,
}

impl Fields {
    /// Adds a field that the event does not have.
    pub fn add(&mut self, name: &'static str, value: &Value) {
        if self.get(name).is_none() {
            self.others.push((name, value.clone()));
        }
    }

    pub fn get(&self, name: &str) -> Option<&Value> {
        self.others.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    fn push(&mut self, field: &Field, value: Value) {
        self.others.push((field.name(), value));
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let text = format!("{value:?}");
        if field.name() == "message" {
            self.message = text;
        } else {
            self.push(field, text.into());
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            value.clone_into(&mut self.message);
        } else {
            self.push(field, value.into());
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.push(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.push(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.push(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.push(field, value.into());
    }
}
