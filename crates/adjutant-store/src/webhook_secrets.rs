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

/// The prefix of every secret, by the Standard Webhooks specification.
const PREFIX: &str = "whsec_";

/// The allowed length of a secret in bytes.
const BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// A signing secret of a tenant's webhooks, without its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct WebhookSecret {
    pub id: Uuid,
    #[serde(serialize_with = "crate::timestamp::serialize")]
    pub created_at: DateTime<Utc>,
    /// None for the newest secret.
    #[serde(serialize_with = "crate::timestamp::serialize_option")]
    pub expires_at: Option<DateTime<Utc>>,
}

/// The source of a new signing secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretFrom<'a> {
    /// Chosen by the tenant.
    Given(&'a str),
    /// Generated.
    Random,
}

impl Store {
    /// Gives a tenant a new secret. The previous secret stays valid for `overlap`, so that
    /// receivers can be updated; older ones become invalid. A generated secret is returned here and
    /// never again.
    pub async fn rotate_webhook_secret(
        &self,
        tenant: &str,
        from: SecretFrom<'_>,
        overlap: Duration,
    ) -> Result<(WebhookSecret, Option<String>)> {
        refuse_nul_in("tenant", tenant)?;
        check_name("tenant", tenant)?;
        let (secret, generated) = match from {
            SecretFrom::Given(text) => (parse_secret(text)?, None),
            SecretFrom::Random => {
                let random: [u8; 32] = rand::rng().random();
                (random.to_vec(), Some(format!("{PREFIX}{}", STANDARD.encode(random))))
            }
        };
        let actor = self.audited()?;
        let row = self
            .call(async |connection| {
                // The statement's snapshot has the secrets of before.
                sqlx::query!(
                    r#"select r.id as "id!", r.created_at as "created_at!", r.expires_at,
                        audit_1(
                            $5, $2, 'webhook_secret.rotate', r.id::text,
                            jsonb_build_object('secrets', array(
                                select w.id
                                from webhook_secret w
                                where w.tenant = $2 and (w.expires_at is null or w.expires_at > now())
                                order by w.id
                            )),
                            jsonb_build_object('secret', r.id, 'overlap_s', $4::double precision)
                        ) as audited
                       from rotate_webhook_secret_1($1, $2, $3, make_interval(secs => $4)) r"#,
                    Uuid::now_v7(),
                    tenant,
                    secret,
                    overlap.as_secs_f64(),
                    actor
                )
                .fetch_one(connection)
                .await
            })
            .await?;
        Ok((
            WebhookSecret { id: row.id, created_at: row.created_at, expires_at: row.expires_at },
            generated,
        ))
    }

    /// The valid secrets of a tenant, newest first.
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

    /// Makes a secret invalid at once, for one that has leaked.
    pub async fn revoke_webhook_secret(&self, tenant: &str, id: Uuid) -> Result<()> {
        let actor = self.audited()?;
        let gone = self
            .call(async |connection| {
                sqlx::query!(
                    r#"with gone as (
                           delete from webhook_secret where tenant = $1 and id = $2 returning *
                       )
                       select audit_1(
                           $3, g.tenant, 'webhook_secret.revoke', g.id::text,
                           jsonb_build_object('expires_at', g.expires_at), null
                       ) as audited
                       from gone g"#,
                    tenant,
                    id,
                    actor
                )
                .fetch_optional(connection)
                .await
            })
            .await?;
        if gone.is_none() {
            return Err(no_secret(format!("Webhook secret not found: {id}")).into());
        }
        Ok(())
    }

    /// Fails if a tenant has no valid secret to sign its webhooks with.
    pub async fn check_webhook_secret(&self, tenant: &str) -> Result<()> {
        let found = self.webhook_secrets(tenant).await?;
        if found.is_empty() { Err(no_signing_secret().into()) } else { Ok(()) }
    }

    /// Like [`Store::check_webhook_secret`], for the tenant of a session.
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
        if found { Ok(()) } else { Err(no_signing_secret().into()) }
    }
}

fn no_signing_secret() -> Refusal {
    no_secret(
        "webhook: there is no secret to sign with; make one with POST /v1/webhooks/secrets or `adjutant webhooks rotate`"
            .to_owned(),
    )
}

fn no_secret(message: String) -> Refusal {
    Refusal::new(ErrorCode::WebhookSecretNotFound, message)
}

/// Parses a secret of the form that the Standard Webhooks specification has: `whsec_` and base64.
fn parse_secret(text: &str) -> std::result::Result<Vec<u8>, Refusal> {
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
            assert_eq!(parse_secret(&text), Ok(vec![7; bytes]));
        }
        let short = format!("whsec_{}", STANDARD.encode([7; 23]));
        let long = format!("whsec_{}", STANDARD.encode([7; 65]));
        let bare = STANDARD.encode([7; 32]);
        for wrong in ["", "whsec_", "whsec_%%%%", &short, &long, &bare] {
            let refusal = parse_secret(wrong).unwrap_err();
            assert!(refusal.message.starts_with("secret: "), "{refusal}");
            assert!(wrong.len() < 10 || !refusal.message.contains(wrong), "{refusal}");
        }
    }
}
