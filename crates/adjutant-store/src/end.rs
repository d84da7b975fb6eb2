use adjutant_agent::{FailureKind, LeaseId, TaskId};
use serde::Serialize;

use crate::text::storable;
use crate::{Await, Error, Lease, Result, Store, Whom};

/// How an attempt ends: decided, not yet written. Writing it again is harmless, so a worker that lost its connection
/// keeps it until the database has answered.
#[derive(Debug)]
pub struct Ending {
    pub(crate) store: Store,
    pub(crate) task: TaskId,
    pub(crate) lease: LeaseId,
    pub(crate) slot: i32,
    pub(crate) end: End,
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
        Ending { store: self.store, task: self.task, lease: self.id, slot: self.slot, end }
    }
}

impl Ending {
    pub fn task(&self) -> TaskId {
        self.task
    }

    pub fn lease(&self) -> LeaseId {
        self.lease
    }

    /// The same attempt, ended as a failure instead: for an outcome that cannot be stored.
    pub fn or_fail(&self, failure: FailureKind, error: String) -> Self {
        let end = End::Failed { failure, error: storable(error), partial_result: None };
        Self { store: self.store.clone(), task: self.task, lease: self.lease, slot: self.slot, end }
    }

    /// Writes this one.
    pub async fn write(&self) -> Result<()> {
        let lost = self.store.end(std::slice::from_ref(self)).await?;
        if lost.is_empty() { Ok(()) } else { Err(Error::LeaseLost(self.task)) }
    }
}

#[derive(Serialize)]
struct Row<'a> {
    slot: i32,
    task: TaskId,
    lease: LeaseId,
    #[serde(flatten)]
    end: &'a End,
}

impl Store {
    /// Writes many endings at once, and answers for which tasks the lease was lost; nothing was written for those.
    pub async fn end(&self, endings: &[Ending]) -> Result<Vec<TaskId>> {
        let rows = endings.iter().map(|Ending { slot, task, lease, end, .. }| {
            serde_json::to_value(Row { slot: *slot, task: *task, lease: *lease, end })
        });
        let rows = rows
            .collect::<std::result::Result<_, _>>()
            .map(serde_json::Value::Array)
            .map_err(|error| Error::Unexpected(sqlx::Error::Encode(error.into())))?;
        let lost = self
            .call(async |connection| {
                sqlx::query_scalar!(r#"select task as "task!" from end_1($1) task"#, rows)
                    .fetch_all(connection)
                    .await
            })
            .await?;
        if endings.iter().any(|ending| matches!(ending.end, End::Released { delay_s: Some(_) })) {
            self.tell(Whom::Delayed);
        }
        Ok(lost.into_iter().map(TaskId).collect())
    }
}
