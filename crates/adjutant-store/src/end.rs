use adjutant_agent::{FailureKind, LeaseId, OverBudget, SessionId, TaskId, WaitMode};
use serde_json::{Value, json};
use sqlx::types::Json;
use uuid::Uuid;

use crate::text::storable;
use crate::wait_for_children::condition;
use crate::{Error, Lease, NotifyTarget, Result, Store};

/// How an attempt ends: decided, not yet written. Writing it again is harmless, so a worker that
/// lost its connection keeps it until the database has answered.
#[derive(Debug)]
pub struct Ending {
    pub(crate) store: Store,
    /// Unknown of one that was found by its slot.
    pub(crate) session: Option<SessionId>,
    pub(crate) task: TaskId,
    pub(crate) lease: LeaseId,
    pub(crate) slot: i32,
    pub(crate) end: End,
}

#[derive(Debug)]
pub(crate) enum End {
    Completed { result: String, summary: Option<String> },
    Failed { failure: FailureKind, error: String, partial_result: Option<String> },
    Released { delay_s: Option<f64> },
    Waiting { waiting_for: WaitMode, children: Vec<TaskId>, delay_s: Option<f64> },
    Paused { over: OverBudget },
}

impl Lease {
    /// Ends the task with its result.
    pub fn complete(self, result: String, summary: Option<String>) -> Ending {
        self.end(End::Completed { result: storable(result), summary: summary.map(storable) })
    }

    /// Ends the task without one. Its last stored text is kept as the partial result, unless
    /// another is given.
    pub fn fail(
        self,
        failure: FailureKind,
        error: String,
        partial_result: Option<String>,
    ) -> Ending {
        self.end(End::Failed {
            failure,
            error: storable(error),
            partial_result: partial_result.map(storable),
        })
    }

    /// Ends the attempt and makes the task wait until its budget, its tree's or its session's has
    /// room again. While it waits it holds no slot and no place in its session's window. If the
    /// budget has been raised meanwhile, it is queued at once.
    pub fn pause(self, over: OverBudget) -> Ending {
        self.end(End::Paused { over })
    }

    pub(crate) fn end(self, end: End) -> Ending {
        Ending {
            store: self.store,
            session: Some(self.session),
            task: self.task,
            lease: self.id,
            slot: self.slot,
            end,
        }
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
        let (store, Self { session, task, lease, slot, .. }) = (self.store.clone(), self);
        Self { store, session: *session, task: *task, lease: *lease, slot: *slot, end }
    }

    /// Writes this one.
    pub async fn write(&self) -> Result<()> {
        let lost = self.store.end(std::slice::from_ref(self)).await?;
        if lost.is_empty() { Ok(()) } else { Err(Error::LeaseLost(self.task)) }
    }
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
    /// Writes many endings at once, and answers for which tasks the lease was lost; nothing was
    /// written for those.
    pub async fn end(&self, endings: &[Ending]) -> Result<Vec<TaskId>> {
        Ok(self.write(endings, true).await?.lost)
    }

    /// As [`Store::end`], but what others are busy with is left for a next time, unless there is
    /// nothing else.
    pub async fn end_some(&self, endings: &[Ending]) -> Result<Unwritten> {
        self.write(endings, false).await
    }

    async fn write(&self, endings: &[Ending], wait: bool) -> Result<Unwritten> {
        let rows = Rows::of(endings);
        let unwritten = self
            .call(async |connection| {
                sqlx::query!(
                    "select lost, busy, delivers from end_1($1, $2, $3, $4, $5, $6, $7)",
                    &rows.slots,
                    &rows.tasks,
                    &rows.leases,
                    &rows.outcomes as _,
                    &rows.results as _,
                    &rows.details as _,
                    wait
                )
                .fetch_one(connection)
                .await
            })
            .await?;
        self.tell_of(endings);
        if unwritten.delivers == Some(true) {
            wake_deliverers(endings);
        }
        let tasks =
            |ids: Option<Vec<Uuid>>| ids.unwrap_or_default().into_iter().map(TaskId).collect();
        Ok(Unwritten { lost: tasks(unwritten.lost), busy: tasks(unwritten.busy) })
    }

    /// Those who wait for a time, and those who watch. A worker's endings are written over any of
    /// its connections, and it hears of watchers where its leases write.
    pub(crate) fn tell_of(&self, endings: &[Ending]) {
        for ending in endings {
            match ending.session {
                Some(session) => ending.store.event_notifier.notify([session]),
                None => ending.store.event_notifier.notify_all(),
            }
        }
        if endings.iter().any(|ending| ending.end.has_a_time()) {
            self.notify_workers(NotifyTarget::Delayed);
        }
    }
}

/// What these endings tell webhooks is to be sent by the worker whose they are, unless another is
/// quicker.
pub(crate) fn wake_deliverers(endings: &[Ending]) {
    if let Some(ending) = endings.first() {
        ending.store.wake_deliverer();
    }
}

/// Endings as `end_1` reads them: parallel arrays, because most have nothing but a result, and a
/// result need not be wrapped into JSON to be unwrapped again.
pub(crate) struct Rows<'a> {
    pub(crate) slots: Vec<i32>,
    pub(crate) tasks: Vec<Uuid>,
    pub(crate) leases: Vec<Uuid>,
    pub(crate) outcomes: Vec<&'static str>,
    pub(crate) results: Vec<Option<&'a str>>,
    pub(crate) details: Vec<Option<Json<Value>>>,
}

impl<'a> Rows<'a> {
    pub(crate) fn of(endings: &'a [Ending]) -> Self {
        Self {
            slots: endings.iter().map(|ending| ending.slot).collect(),
            tasks: endings.iter().map(|ending| ending.task.0).collect(),
            leases: endings.iter().map(|ending| ending.lease.0).collect(),
            outcomes: endings.iter().map(|ending| ending.end.outcome()).collect(),
            results: endings.iter().map(|ending| ending.end.result()).collect(),
            details: endings.iter().map(|ending| ending.end.details().map(Json)).collect(),
        }
    }
}

impl End {
    /// Whether somebody has to look at the clock for it.
    fn has_a_time(&self) -> bool {
        match self {
            Self::Released { delay_s } | Self::Waiting { delay_s, .. } => delay_s.is_some(),
            Self::Completed { .. } | Self::Failed { .. } | Self::Paused { .. } => false,
        }
    }

    fn outcome(&self) -> &'static str {
        match self {
            Self::Completed { .. } => "completed",
            Self::Failed { .. } => "failed",
            Self::Released { .. } => "released",
            Self::Waiting { .. } | Self::Paused { .. } => "waiting",
        }
    }

    fn result(&self) -> Option<&str> {
        match self {
            Self::Completed { result, .. } => Some(result),
            Self::Failed { .. }
            | Self::Released { .. }
            | Self::Waiting { .. }
            | Self::Paused { .. } => None,
        }
    }

    fn details(&self) -> Option<Value> {
        match self {
            Self::Completed { summary, .. } => {
                summary.as_ref().map(|summary| json!({"summary": summary}))
            }
            Self::Failed { failure, error, partial_result } => {
                Some(json!({"failure": failure, "error": error, "partial_result": partial_result}))
            }
            Self::Released { delay_s } => delay_s.map(|delay_s| json!({"delay_s": delay_s})),
            Self::Waiting { waiting_for, children, delay_s } => {
                let waiting_for = condition(*waiting_for);
                Some(json!({"waiting_for": waiting_for, "children": children, "delay_s": delay_s}))
            }
            Self::Paused { over } => Some(json!({"waiting_for": "budget", "budget": over})),
        }
    }
}
