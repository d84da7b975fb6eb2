//! The two forms of a log line: text for people, and JSON with all fields.

use std::fmt::Write;

use adjutant_worker::payloads::TARGET as PAYLOADS;
use chrono::{Local, SecondsFormat, Utc};
use serde_json::Value;
use tracing::{Level, Metadata};

use super::fields::Fields;
use crate::output::{escape_json, escape_line};

/// The ids at the end of a line of text: the name there, and the fields that may have it.
const IDS: [(&str, &[&str]); 6] = [
    ("worker", &["worker.name"]),
    ("server", &["server.name"]),
    ("tenant", &["tenant"]),
    ("session", &["session.id"]),
    ("task", &["task.number", "task.id"]),
    ("agent", &["agent.name"]),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineFormat {
    Text,
    ColoredText,
    Json,
    /// JSON without control characters in its strings.
    JsonOnTerminal,
}

impl LineFormat {
    pub fn line(self, metadata: &Metadata<'_>, fields: &Fields) -> String {
        match self {
            Self::Text => text(metadata, fields, false),
            Self::ColoredText => text(metadata, fields, true),
            Self::Json => json(metadata, fields),
            Self::JsonOnTerminal => escape_json(&json(metadata, fields)).into_owned(),
        }
    }
}

/// Time, level, message and ids. Debug events and payloads have all their fields.
fn text(metadata: &Metadata<'_>, fields: &Fields, is_colored: bool) -> String {
    let level = *metadata.level();
    let mut line = format!("{} ", Local::now().format("%H:%M:%S%.3f"));
    let (color, plain) = if is_colored { (color(level), "\u{1b}[0m") } else { (String::new(), "") };
    push(&mut line, format_args!("{color}{level:>5}{plain} {}", escape_line(&fields.message)));
    let has_fields = level > Level::INFO || metadata.target() == PAYLOADS;
    for (name, value) in fields.others.iter().filter(|_| has_fields) {
        push(&mut line, format_args!(" {name}={}", shown(value)));
    }
    for (name, of) in IDS.iter().filter(|_| !has_fields) {
        if let Some(value) = of.iter().find_map(|field| fields.get(field)) {
            push(&mut line, format_args!(" {name}={}", shown(value)));
        }
    }
    line
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => escape_line(text).into_owned(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            value.to_string()
        }
    }
}

fn json(metadata: &Metadata<'_>, fields: &Fields) -> String {
    let mut line = String::from("{");
    let now = Utc::now().to_rfc3339_opts(SecondsFormat::Micros, true);
    let text = |text: &str| Value::from(text);
    let first = [("timestamp", text(&now)), ("level", text(metadata.level().as_str()))];
    let message = ("message", text(&fields.message));
    let last = ("target", text(metadata.target()));
    let all = first.iter().chain([&message]).chain(&fields.others).chain([&last]);
    for (name, value) in all {
        let comma = if line.len() == 1 { "" } else { "," };
        push(&mut line, format_args!("{comma}{}:{value}", text(name)));
    }
    line.push('}');
    line
}

fn color(level: Level) -> String {
    let code = match level {
        Level::ERROR => 31,
        Level::WARN => 33,
        Level::INFO => 32,
        Level::DEBUG => 34,
        Level::TRACE => 35,
    };
    format!("\u{1b}[{code}m")
}

fn push(line: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = line.write_fmt(text);
}
