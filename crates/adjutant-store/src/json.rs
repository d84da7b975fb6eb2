use serde::Serialize;
use serde_json::Value;

use crate::{Error, Result};

pub(crate) fn to_json(value: &impl Serialize) -> Result<Value> {
    serde_json::to_value(value)
        .map_err(|error| Error::Unexpected(sqlx::Error::Encode(error.into())))
}
