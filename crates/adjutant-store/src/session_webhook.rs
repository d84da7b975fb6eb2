use adjutant_agent::{ErrorCode, Refusal, Webhook};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::{Error, Result, Store};

/// The webhook that receives the ends of a session's tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionWebhook {
    #[serde(flatten)]
    pub webhook: Webhook,
    /// Set when the receiver answered 410 Gone; nothing is sent since.
    #[serde(default, serialize_with = "crate::moment::serialize_if_any")]
    pub disabled_at: Option<DateTime<Utc>>,
}

impl Store {
    /// Sets or removes the webhook of a session, from the next end on.
    pub async fn set_session_webhook(
        &self,
        tenant: &str,
        name: &str,
        webhook: Option<&Webhook>,
    ) -> Result<()> {
        let webhook = webhook.map(as_json).transpose()?;
        let changed = self
            .call(async |connection| {
                sqlx::query!(
                    "update session set webhook = $3 where tenant = $1 and name = $2",
                    tenant,
                    name,
                    webhook
                )
                .execute(connection)
                .await
            })
            .await?;
        if changed.rows_affected() == 0 {
            return Err(Refusal::new(
                ErrorCode::SessionNotFound,
                format!("Session not found: {name}"),
            )
            .into());
        }
        Ok(())
    }
}

pub(crate) fn as_json(webhook: &Webhook) -> Result<serde_json::Value> {
    crate::text::refuse_nul_in("webhook.url", &webhook.url)?;
    serde_json::to_value(webhook)
        .map_err(|error| Error::Unexpected(sqlx::Error::Encode(error.into())))
}
