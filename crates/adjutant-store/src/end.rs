use adjutant_agent::{FailureKind, LeaseId, TaskId};
use serde::Serialize;

use crate::text::storable;
use crate::{Await, Error, Lease, Result, Store};

/// How an attempt ends: decided, not yet written. Writing it again is harmless, so a worker that lost its connection
/// keeps it until the database has answered.
#[derive(Debug)]
pub struct Ending {
    lease: Lease,
    end: End,
}

#[derive(Debug, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub(crate) enum End {
    Completed { result: String, summary: Option<String> },
    Failed { failure: FailureKind, error: String, partial_result: Option<String> },
    Released { delay_s: Option<f64> },
    Waiting { waiting_for: Await, children: Vec<TaskId> },
}

impl Lease {
    /// Ends the task with its result.
    pub fn complete(self, result: String, summary: Option<String>) -> Ending {
        self.end(End::Completed { result: storable(result), summary: summary.map(storable) })
    }

    /// Ends the task without one. Its last stored text is kept as the partial result, unless another is given.
    pub fn fail(self, failure: FailureKind, error: String, partial_result: Option<String>) -> Ending {
        self.end(End::Failed {
            failure,
            error: storable(error),
            partial_result: partial_result.map(storable),
        })
    }

    pub(crate) fn end(self, end: End) -> Ending {
        Ending { lease: self, end }
    }
}

impl Ending {
    pub fn task(&self) -> TaskId {
        self.lease.task
    }

    /// Writes this one.
    pub async fn write(&self) -> Result<()> {
        let lost = self.lease.store.end(std::slice::from_ref(self)).await?;
        if lost.is_empty() { Ok(()) } else { Err(Error::LeaseLost(self.task())) }
    }
}

#[derive(Serialize)]
struct Row<'a> {
    task: TaskId,
    lease: LeaseId,
    #[serde(flatten)]
    end: &'a End,
}

impl Store {
    /// Writes many endings at once, and answers for which tasks the lease was lost; nothing was written for those.
    pub async fn end(&self, endings: &[Ending]) -> Result<Vec<TaskId>> {
        let rows = endings.iter().map(|Ending { lease, end }| {
            serde_json::to_value(Row { task: lease.task, lease: lease.id, end })
        });
        let rows = rows
            .collect::<std::result::Result<_, _>>()
            .map(serde_json::Value::Array)
            .map_err(|error| Error::Unexpected(sqlx::Error::Encode(error.into())))?;
        let lost = sqlx::query_scalar!(r#"select task as "task!" from end_1($1) task"#, rows)
            .fetch_all(&self.pool)
            .await?;
        Ok(lost.into_iter().map(TaskId).collect())
    }
}
