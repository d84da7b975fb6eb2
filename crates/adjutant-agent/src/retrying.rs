use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::timestamp;

/// A model call that failed and is tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Retrying {
    /// All of it in a sentence.
    pub text: String,
    /// The name of the model in the config.
    pub model: String,
    /// The host and port of its provider.
    pub host: String,
    /// How many tries have failed. Calls that the provider refused with 401 or 403 do not count.
    pub tries: i32,
    /// The task fails after so many.
    pub max_tries: i32,
    /// The HTTP status of the last try, if it had one.
    pub status: Option<i16>,
    /// What went wrong in the last try.
    pub error: String,
    /// When the call failed for the first time.
    #[serde(serialize_with = "timestamp::serialize")]
    pub since: DateTime<Utc>,
    /// When it is tried again.
    #[serde(serialize_with = "timestamp::serialize_option")]
    pub next_try_at: Option<DateTime<Utc>>,
}
