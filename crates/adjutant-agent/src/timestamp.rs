//! Times in answers to clients: RFC 3339 in UTC, with milliseconds.

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serializer;

/// Formats a time.
pub fn utc(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// For `#[serde(serialize_with)]`.
pub fn serialize<S: Serializer>(at: &DateTime<Utc>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&utc(*at))
}

/// For `#[serde(serialize_with)]` of an optional time.
pub fn serialize_option<S: Serializer>(
    at: &Option<DateTime<Utc>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => serialize(at, serializer),
        None => serializer.serialize_none(),
    }
}
