use adjutant_agent::{DeliveryState, ErrorCode, Refusal, TaskId};
use chrono::{DateTime, Utc};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{NotifyTarget, Result, Store};

/// The end of a task that is, or was, told to a webhook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Delivery)]
pub struct DeliveryRecord {
    /// Sent with it as `webhook-id`.
    pub id: Uuid,
    pub session_id: String,
    pub task_id: String,
    /// The task's id outside its session.
    pub task: Uuid,
    pub event: String,
    pub url: String,
    #[schema(value_type = DeliveryState)]
    pub state: String,
    pub tries: i32,
    pub last_status: Option<i32>,
    pub last_error: Option<String>,
    #[serde(serialize_with = "crate::moment::serialize_if_any")]
    pub next_try_at: Option<DateTime<Utc>>,
    #[serde(serialize_with = "crate::moment::serialize")]
    pub created_at: DateTime<Utc>,
    #[serde(serialize_with = "crate::moment::serialize_if_any")]
    pub tried_at: Option<DateTime<Utc>>,
    #[serde(serialize_with = "crate::moment::serialize_if_any")]
    pub delivered_at: Option<DateTime<Utc>>,
}

/// Which of a tenant's deliveries are wanted; what is not said is no condition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeliveryFilter {
    pub tenant: String,
    /// Of this task, or the one of this id: then nothing else counts.
    pub task: Option<TaskId>,
    pub id: Option<Uuid>,
    pub state: Option<String>,
    pub session: Option<String>,
    /// Only those that are older than this one.
    pub before: Option<Uuid>,
}

impl Store {
    /// A tenant's deliveries, the newest first.
    pub async fn deliveries(
        &self,
        wanted: &DeliveryFilter,
        limit: i64,
    ) -> Result<Vec<DeliveryRecord>> {
        self.call(async |connection| {
            sqlx::query_as!(
                DeliveryRecord,
                r#"select
                    id as "id!", session_id as "session_id!", task_id as "task_id!", task as "task!", event as "event!",
                    url as "url!", state as "state!: String", tries as "tries!", last_status, last_error, next_try_at,
                    created_at as "created_at!", tried_at, delivered_at
                   from deliveries_1($1, $2, $3, $4, $5, $6, $7)"#,
                wanted.tenant,
                wanted.task.map(|task| task.0),
                wanted.id,
                wanted.state,
                wanted.session,
                wanted.before,
                limit
            )
            .fetch_all(connection)
            .await
        })
        .await
    }

    /// Sends a tenant's delivery once more, as if it had not been tried; one that is being sent stays as it is.
    pub async fn redeliver(&self, tenant: &str, id: Uuid) -> Result<DeliveryRecord> {
        self.call(async |connection| {
            sqlx::query!(
                "update webhook_delivery
                 set state = 'pending', tries = 0, next_try_at = now(), lease = null, delivered_at = null
                 where id = $1 and tenant = $2 and (lease is null or next_try_at <= now())",
                id,
                tenant
            )
            .execute(connection)
            .await
        })
        .await?;
        let wanted =
            DeliveryFilter { tenant: tenant.to_owned(), id: Some(id), ..DeliveryFilter::default() };
        let found = self.deliveries(&wanted, 1).await?.pop();
        let missing =
            || Refusal::new(ErrorCode::DeliveryNotFound, format!("Delivery not found: {id}"));
        let found = found.ok_or_else(missing)?;
        self.tell(NotifyTarget::Delayed);
        Ok(found)
    }
}
