use adjutant_agent::{FailureKind, LeaseId, TaskId};
use serde::Serialize;
use sqlx::types::Json;

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
pub(crate) struct Row<'a> {
    slot: i32,
    task: TaskId,
    lease: LeaseId,
    #[serde(flatten)]
    end: &'a End,
}

/// Which of many endings were not written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unwritten {
    /// Their leases are lost.
    pub lost: Vec<TaskId>,
    /// Others are busy with their sessions; to be written again.
    pub busy: Vec<TaskId>,
}

impl Unwritten {
    pub(crate) fn add(&mut self, what: &str, task: TaskId) {
        if what == "busy" { &mut self.busy } else { &mut self.lost }.push(task);
    }
}

impl Store {
    /// Writes many endings at once, and answers for which tasks the lease was lost; nothing was written for those.
    pub async fn end(&self, endings: &[Ending]) -> Result<Vec<TaskId>> {
        Ok(self.write(endings, true).await?.lost)
    }

    /// As [`Store::end`], but what others are busy with is left for a next time, unless there is nothing else.
    pub async fn end_some(&self, endings: &[Ending]) -> Result<Unwritten> {
        self.write(endings, false).await
    }

    async fn write(&self, endings: &[Ending], wait: bool) -> Result<Unwritten> {
        let rows = to_rows(endings);
        let unwritten = self
            .call(async |connection| {
                sqlx::query!(r#"select task as "task!", what as "what!" from end_1($1, $2)"#, rows as _, wait)
                    .fetch_all(connection)
                    .await
            })
            .await?;
        let mut answer = Unwritten::default();
        for row in unwritten {
            answer.add(&row.what, TaskId(row.task));
        }
        self.tell_of_delays(endings);
        Ok(answer)
    }

    pub(crate) fn tell_of_delays(&self, endings: &[Ending]) {
        if endings.iter().any(|ending| matches!(ending.end, End::Released { delay_s: Some(_) })) {
            self.tell(Whom::Delayed);
        }
    }
}

/// Endings as `end_1` reads them.
pub(crate) fn to_rows(endings: &[Ending]) -> Json<Vec<Row<'_>>> {
    let rows = endings.iter();
    Json(
        rows.map(|Ending { slot, task, lease, end, .. }| Row {
            slot: *slot,
            task: *task,
            lease: *lease,
            end,
        })
        .collect(),
    )
}
