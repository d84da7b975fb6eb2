//! Times as all answers have them: UTC with milliseconds, as text.

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serializer;

/// A time as the wire has it.
pub fn utc(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// For serde.
pub fn serialize<S: Serializer>(at: &DateTime<Utc>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&utc(*at))
}

/// For serde, where there may be none.
pub fn serialize_if_any<S: Serializer>(
    at: &Option<DateTime<Utc>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => serialize(at, serializer),
        None => serializer.serialize_none(),
    }
}
