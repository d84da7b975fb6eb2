use adjutant_agent::{DeliveryState, ErrorCode, Refusal, TaskId};
use chrono::{DateTime, Utc};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{NotifyTarget, Result, Store};

/// A delivery of a task's end to a webhook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Delivery)]
pub struct DeliveryRecord {
    /// Sent as the header `webhook-id`.
    pub id: Uuid,
    pub session_id: String,
    pub task_id: String,
    /// The task's globally unique id.
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

/// A filter of a tenant's deliveries. `None` is no condition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeliveryFilter {
    pub tenant: String,
    /// With a task or an id, the other conditions are ignored.
    pub task: Option<TaskId>,
    pub id: Option<Uuid>,
    pub state: Option<String>,
    pub session: Option<String>,
    /// Only deliveries older than this one.
    pub before: Option<Uuid>,
}

impl Store {
    /// A tenant's deliveries, newest first.
    pub async fn deliveries(
        &self,
        filter: &DeliveryFilter,
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
                filter.tenant,
                filter.task.map(|task| task.0),
                filter.id,
                filter.state,
                filter.session,
                filter.before,
                limit
            )
            .fetch_all(connection)
            .await
        })
        .await
    }

    /// Makes a tenant's delivery pending again, with no tries. A delivery that is being sent is
    /// left alone.
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
        let filter =
            DeliveryFilter { tenant: tenant.to_owned(), id: Some(id), ..DeliveryFilter::default() };
        let found = self.deliveries(&filter, 1).await?.pop();
        let missing =
            || Refusal::new(ErrorCode::DeliveryNotFound, format!("Delivery not found: {id}"));
        let found = found.ok_or_else(missing)?;
        self.notify_workers(NotifyTarget::Delayed);
        Ok(found)
    }
}
