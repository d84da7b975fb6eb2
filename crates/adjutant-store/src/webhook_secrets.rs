use std::time::Duration;

use adjutant_agent::{ErrorCode, Refusal, SessionId};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, Utc};
use rand::RngExt;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::batch::check_name;
use crate::text::refuse_nul_in;
use crate::{Result, Store};

/// What every secret begins with, as the Standard Webhooks have it.
const PREFIX: &str = "whsec_";

/// How many bytes a secret may have.
const BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// A secret of a tenant's webhooks, without the secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct WebhookSecret {
    pub id: Uuid,
    #[serde(serialize_with = "crate::moment::serialize")]
    pub created_at: DateTime<Utc>,
    /// When it is good no longer; none for the newest.
    #[serde(serialize_with = "crate::moment::serialize_if_any")]
    pub expires_at: Option<DateTime<Utc>>,
}

/// A secret to sign with: one that its owner has already, or a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretFrom<'a> {
    Owner(&'a str),
    Chance,
}

impl Store {
    /// Gives a tenant a new secret. The one before it is good for `overlap` longer, and none before that: receivers have that
    /// long to learn the new one. A secret that was made here is in this answer and never shown again.
    pub async fn rotate_webhook_secret(
        &self,
        tenant: &str,
        from: SecretFrom<'_>,
        overlap: Duration,
    ) -> Result<(WebhookSecret, Option<String>)> {
        refuse_nul_in("tenant", tenant)?;
        check_name("tenant", tenant)?;
        let (secret, made) = match from {
            SecretFrom::Owner(text) => (read_secret(text)?, None),
            SecretFrom::Chance => {
                let random: [u8; 32] = rand::rng().random();
                (random.to_vec(), Some(format!("{PREFIX}{}", STANDARD.encode(random))))
            }
        };
        let row = self
            .call(async |connection| {
                sqlx::query!(
                    r#"select id as "id!", created_at as "created_at!", expires_at
                       from rotate_webhook_secret_1($1, $2, $3, make_interval(secs => $4))"#,
                    Uuid::now_v7(),
                    tenant,
                    secret,
                    overlap.as_secs_f64()
                )
                .fetch_one(connection)
                .await
            })
            .await?;
        Ok((
            WebhookSecret { id: row.id, created_at: row.created_at, expires_at: row.expires_at },
            made,
        ))
    }

    /// The secrets that a tenant's webhooks are signed with now, the newest first.
    pub async fn webhook_secrets(&self, tenant: &str) -> Result<Vec<WebhookSecret>> {
        self.call(async |connection| {
            sqlx::query_as!(
                WebhookSecret,
                "select id, created_at, expires_at
                 from webhook_secret
                 where tenant = $1 and (expires_at is null or expires_at > now())
                 order by id desc",
                tenant
            )
            .fetch_all(connection)
            .await
        })
        .await
    }

    /// Makes a secret worthless at once, for one that others have learned.
    pub async fn revoke_webhook_secret(&self, tenant: &str, id: Uuid) -> Result<()> {
        let gone = self
            .call(async |connection| {
                sqlx::query!("delete from webhook_secret where tenant = $1 and id = $2", tenant, id)
                    .execute(connection)
                    .await
            })
            .await?;
        if gone.rows_affected() == 0 {
            return Err(no_secret(format!("Webhook secret not found: {id}")).into());
        }
        Ok(())
    }

    /// Refuses webhooks of a tenant that has nothing to sign them with.
    pub async fn check_webhook_secret(&self, tenant: &str) -> Result<()> {
        let found = self.webhook_secrets(tenant).await?;
        if found.is_empty() { Err(nothing_to_sign_with().into()) } else { Ok(()) }
    }

    /// The same for the tenant of a session.
    pub async fn check_webhook_secret_of(&self, session: SessionId) -> Result<()> {
        let found = self
            .call(async |connection| {
                sqlx::query_scalar!(
                    r#"select exists (
                           select
                           from webhook_secret w
                           join session s on s.tenant = w.tenant
                           where s.id = $1 and (w.expires_at is null or w.expires_at > now())
                       ) as "found!""#,
                    session.0
                )
                .fetch_one(connection)
                .await
            })
            .await?;
        if found { Ok(()) } else { Err(nothing_to_sign_with().into()) }
    }
}

fn nothing_to_sign_with() -> Refusal {
    no_secret(
        "webhook: there is no secret to sign with; make one with POST /v1/webhooks/secrets or `adjutant webhooks rotate`"
            .to_owned(),
    )
}

fn no_secret(message: String) -> Refusal {
    Refusal::new(ErrorCode::WebhookSecretNotFound, message)
}

/// `whsec_` and base64, as the Standard Webhooks write secrets.
fn read_secret(text: &str) -> std::result::Result<Vec<u8>, Refusal> {
    let bytes = text.strip_prefix(PREFIX).and_then(|rest| STANDARD.decode(rest).ok());
    bytes.filter(|bytes| BYTES.contains(&bytes.len())).ok_or_else(|| {
        let (least, most) = (BYTES.start(), BYTES.end());
        Refusal::invalid(
            "secret",
            format_args!("must be {PREFIX} and {least} to {most} bytes in base64"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_has_24_to_64_bytes_in_base64() {
        for bytes in [24, 32, 64] {
            let text = format!("whsec_{}", STANDARD.encode(vec![7; bytes]));
            assert_eq!(read_secret(&text), Ok(vec![7; bytes]));
        }
        let short = format!("whsec_{}", STANDARD.encode([7; 23]));
        let long = format!("whsec_{}", STANDARD.encode([7; 65]));
        let bare = STANDARD.encode([7; 32]);
        for wrong in ["", "whsec_", "whsec_%%%%", &short, &long, &bare] {
            let refusal = read_secret(wrong).unwrap_err();
            assert!(refusal.message.starts_with("secret: "), "{refusal}");
            assert!(wrong.len() < 10 || !refusal.message.contains(wrong), "{refusal}");
        }
    }
}
