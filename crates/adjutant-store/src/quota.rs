use adjutant_agent::SessionId;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::{Result, Store};

/// The start of the refusal of a task for which a quota leaves nothing.
pub const QUOTA_EXCEEDED: &str = "Resource quota exceeded";

/// What all tasks of one dialect in a session may use together; a field without a value sets no
/// limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Quota {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_executions: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_total_tokens: Option<i64>,
    /// In seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_total_time: Option<f64>,
}

impl Quota {
    /// None if nothing is limited.
    pub fn if_any(self) -> Option<Self> {
        (self != Self::default()).then_some(self)
    }

    /// The refusal after a task has ended, given the tokens of all tasks until then. The number of
    /// tasks and their time are checked before a task is stored.
    pub fn check_tokens(&self, used: i64) -> std::result::Result<(), String> {
        match self.max_total_tokens {
            Some(most) if used > most => {
                Err(format!("{QUOTA_EXCEEDED}: {used} tokens used, and there are {most}"))
            }
            Some(_) | None => Ok(()),
        }
    }
}

impl Store {
    /// The tokens that the tasks of a dialect in a session had used, all together, when the last of
    /// them ended at this time.
    pub async fn tokens_until(
        &self,
        session: SessionId,
        dialect: &str,
        ended: DateTime<Utc>,
    ) -> Result<i64> {
        let tokens = self
            .call(async |connection| {
                sqlx::query_scalar!(
                    r#"select tokens as "tokens!" from quota_used_1($1, $2, $3)"#,
                    session.0,
                    dialect,
                    ended
                )
                .fetch_one(connection)
                .await
            })
            .await?;
        Ok(tokens)
    }
}
