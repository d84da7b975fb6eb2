use std::time::Duration;

use adjutant_agent::TaskId;

use crate::{Result, Store, Worker};

/// A task whose worker was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Swept {
    pub task: TaskId,
    /// Whether that ended it; else it is queued again, in front.
    pub ended: bool,
}

impl Worker {
    /// Takes back tasks whose lease ran out longer than `grace` ago. Does nothing until this worker
    /// has renewed twice in a row: after an outage of the database everyone's lease looks expired.
    pub async fn sweep(&self, grace: Duration) -> Result<Vec<Swept>> {
        let rows = self
            .calls
            .call(async |connection| {
                sqlx::query!(
            r#"select task as "task!", ended as "ended!" from sweep_1($1, make_interval(secs => $2))"#,
            self.id.0,
            grace.as_secs_f64()
        )
        .fetch_all(connection).await
            })
            .await?;
        if !rows.is_empty() {
            self.store.event_notifier.notify_all();
            if rows.iter().any(|row| row.ended) {
                self.store.wake_deliverer();
            }
        }
        Ok(rows.into_iter().map(|row| Swept { task: TaskId(row.task), ended: row.ended }).collect())
    }
}

impl Store {
    /// Lets in delayed tasks whose time has come; answers how many it saw.
    pub async fn admit_due(&self) -> Result<i32> {
        let due = self
            .call(async |connection| {
                sqlx::query_scalar!(r#"select admit_due_1(1000) as "due!""#)
                    .fetch_one(connection)
                    .await
            })
            .await?;
        Ok(due)
    }
}
