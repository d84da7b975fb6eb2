use adjutant_agent::SessionId;
use chrono::{DateTime, Utc};

use crate::{Result, Store};

impl Store {
    /// The tokens that the tasks of a dialect in a session had used, all together, when the last of them ended at this time.
    pub async fn tokens_until(&self, session: SessionId, dialect: &str, ended: DateTime<Utc>) -> Result<i64> {
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
