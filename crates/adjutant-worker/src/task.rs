use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use adjutant_agent::{
    ContextCall, EarlierTask, Outcome, SessionId, StoredTurn, TaskId, TaskNumber, TaskView,
    ToolResult, Turn, WorkerId,
};
use adjutant_dialects::spec::ReadCall;
use adjutant_store::{
    Agent, Assignment, Error, FailedCall, FailedTries, GateCause, IdempotencyKey, Lease,
    NewDelegation, NewTask, NotifyTarget, Operator, Preflight, Probe, ResultPage, Spawned,
    warn_unless_outage,
};
use tokio_util::sync::CancellationToken;

use crate::claim::Claimed;
use crate::fault;
use crate::handler::Stop;
use crate::lease_table::{HeldLease, lock};
use crate::live_text::LiveTextStream;
use crate::task_calls::TaskCalls;
use crate::worker_state::{WorkerState, backoff};
use crate::{telemetry, trace};

/// A preflight may be this old: a closed gate takes effect after 250 ms.
const FRESH: Duration = Duration::from_millis(100);

/// A preflight, and when it was requested.
#[derive(Debug)]
pub struct PreflightResult {
    preflight: Preflight,
    requested_at: Instant,
}

impl PreflightResult {
    /// The preflight, unless it is too old to rely on.
    pub fn if_fresh(self) -> Option<Preflight> {
        (self.requested_at.elapsed() < FRESH).then_some(self.preflight)
    }
}

/// One attempt of a task, for its handler: the assignment, and the lease to store progress under.
///
/// Every call to the database is retried while the database is unavailable and the lease is valid.
#[derive(Debug)]
pub struct Task {
    assignment: Assignment,
    pub(crate) lease: Lease,
    held: Arc<HeldLease>,
    draining: CancellationToken,
    live_text: LiveTextStream,
    pool: String,
    worker: WorkerId,
    lease_time: Duration,
    pub(crate) calls: Mutex<TaskCalls>,
}

impl Task {
    pub(crate) fn new(claimed: Claimed, state: &WorkerState) -> Self {
        let Claimed { claim, held } = claimed;
        let (lease, assignment) = (claim.lease, claim.assignment);
        let (store, session) = (lease.store().clone(), lease.session());
        let live_text = LiveTextStream::new(store, session, lease.task(), assignment.number);
        let (draining, pool) = (state.draining.clone(), state.settings.pool.clone());
        let (worker, lease_time) = (state.worker.id(), state.settings.lease);
        let calls = Mutex::default();
        Self { assignment, lease, held, draining, live_text, pool, worker, lease_time, calls }
    }

    /// The worker that runs it.
    pub(crate) fn worker(&self) -> WorkerId {
        self.worker
    }

    /// How long a lease of this worker lasts without a renewal.
    pub(crate) fn lease_time(&self) -> Duration {
        self.lease_time
    }

    /// The pool that the task runs in.
    pub fn pool(&self) -> &str {
        &self.pool
    }

    pub fn assignment(&self) -> &Assignment {
        &self.assignment
    }

    pub fn id(&self) -> TaskId {
        self.lease.task()
    }

    pub fn session(&self) -> SessionId {
        self.lease.session()
    }

    pub fn attempt(&self) -> i32 {
        self.lease.attempt()
    }

    /// The number of stored model answers, of this attempt and earlier ones.
    pub fn answers(&self) -> i32 {
        self.lease.answers()
    }

    /// Appends text to the answer that is not stored yet. It becomes the partial result if the task
    /// ends before the answer does, and is streamed to clients that watch the task.
    pub fn append_text(&self, text: &str) {
        lock(&self.held.draft).append(self.answers() + 1, text);
        self.live_text.append(self.answers() + 1, text);
    }

    /// Discards the unstored text: the answer is stored, or its call failed.
    pub fn clear_draft(&self) {
        lock(&self.held.draft).clear();
        self.live_text.reset();
    }

    /// Takes the text of an answer that did not finish.
    pub(crate) fn unfinished_text(&self) -> Option<String> {
        self.live_text.reset();
        let text = lock(&self.held.draft).clear();
        (!text.trim().is_empty()).then_some(text)
    }

    /// Whether this worker may start the next step. To be checked before every step with a cost.
    pub fn check_may_continue(&self) -> Result<(), Stop> {
        self.check_lease()?;
        if self.draining.is_cancelled() {
            return Err(Stop::HandOver);
        }
        Ok(())
    }

    /// Whether the lease is valid, even if the worker drains.
    pub fn check_lease(&self) -> Result<(), Stop> {
        if self.held.is_valid() { Ok(()) } else { Err(Stop::LeaseLost) }
    }

    /// Sleeps for this time, or until the worker drains.
    pub async fn pause(&self, time: Duration) {
        tokio::select! {
            () = tokio::time::sleep(time) => {}
            () = self.draining.cancelled() => {}
        }
    }

    /// Awaits the future, but stops when the worker drains.
    pub async fn unless_draining<T>(&self, future: impl Future<Output = T>) -> Result<T, Stop> {
        tokio::select! {
            biased;
            () = self.draining.cancelled() => Err(Stop::HandOver),
            output = future => Ok(output),
        }
    }

    /// The turns that earlier attempts stored.
    pub async fn turns(&self) -> Result<Vec<StoredTurn>, Stop> {
        if self.answers() == 0 {
            return Ok(Vec::new());
        }
        self.retry(|| self.lease.store().turns(self.id())).await
    }

    /// The tasks that this one continues with their stored turns, the oldest first.
    pub async fn earlier_tasks(&self) -> Result<Vec<EarlierTask>, Stop> {
        self.retry(|| self.lease.store().earlier_tasks(&self.assignment.config)).await
    }

    /// Stores the next turn, renews the lease, and runs the preflight of the next call of the
    /// turn's model. The model call is never repeated after this.
    pub async fn checkpoint(&mut self, turn: &Turn) -> Result<PreflightResult, Stop> {
        for pause in backoff() {
            let requested_at = Instant::now();
            match self.lease.checkpoint(turn).await {
                Ok(preflight) => {
                    self.stored(requested_at);
                    return Ok(PreflightResult { preflight, requested_at });
                }
                Err(error) => self.before_retry(error, pause).await?,
            }
        }
        Err(Stop::LeaseLost)
    }

    fn stored(&self, requested_at: Instant) {
        self.held.renewed(requested_at);
        self.clear_draft();
        self.call_stored();
        fault::point("checkpointed");
    }

    /// Stores the result of a tool call of the last turn and renews the lease. `tool` is `None` for
    /// a tool that the agent does not have.
    pub async fn tool_result(&self, tool: Option<&str>, result: &ToolResult) -> Result<(), Stop> {
        let requested_at = Instant::now();
        self.retry(|| self.lease.tool_result(tool, result)).await?;
        self.held.renewed(requested_at);
        Ok(())
    }

    /// Applies a call to the shared context and stores its result in one transaction, and renews
    /// the lease.
    pub async fn shared_context(
        &self,
        call_id: &str,
        call: &ContextCall,
    ) -> Result<ToolResult, Stop> {
        let requested_at = Instant::now();
        let result = self.retry(|| self.lease.shared_context(call_id, call)).await?;
        self.held.renewed(requested_at);
        Ok(result)
    }

    /// The state of budgets and of the gate that decides whether the model may be called.
    pub async fn preflight(&self, model: &str) -> Result<Preflight, Stop> {
        self.retry(|| self.lease.store().preflight(self.id(), self.session(), model)).await
    }

    /// Keeps all workers from calling the model for this time. True if its gate was open.
    pub async fn close_gate(
        &self,
        model: &str,
        time: Duration,
        cause: GateCause<'_>,
    ) -> Result<bool, Stop> {
        self.retry(|| self.lease.store().close_gate(model, time, cause)).await
    }

    /// Asks for the next call of a model whose circuit is closed.
    pub(crate) async fn take_probe(&self, model: &str, next: Duration) -> Result<Probe, Stop> {
        self.retry(|| self.lease.store().take_probe(model, next)).await
    }

    /// Opens a circuit for all workers. True if it was closed.
    pub(crate) async fn open_circuit(&self, model: &str) -> Result<bool, Stop> {
        let opened = self.retry(|| self.lease.store().open_circuit(model)).await?;
        if opened {
            self.lease.store().notify_workers(NotifyTarget::All);
        }
        Ok(opened)
    }

    /// The failed tries of the model call under way, by this attempt and earlier ones.
    pub(crate) async fn failed_tries(&self) -> Result<FailedTries, Stop> {
        self.retry(|| self.lease.failed_tries()).await
    }

    /// Stores the failed tries of the model call, with an event if there is a text for it.
    pub(crate) async fn record_failed_call(
        &self,
        call: &FailedCall<'_>,
        detail: Option<&str>,
    ) -> Result<(), Stop> {
        self.retry(|| self.lease.record_failed_call(call, detail)).await
    }

    /// Spawns children, all or none, and once per key. They continue the trace of their parent.
    pub async fn spawn(
        &self,
        children: &[NewTask],
        key: IdempotencyKey<'_>,
    ) -> Result<Vec<Spawned>, Stop> {
        let children = trace::in_this_trace(children, self.assignment.traceparent.as_deref());
        let spawned = self.retry(|| self.lease.spawn(&children, Some(key))).await?;
        telemetry::log_spawned(self, &spawned);
        Ok(spawned)
    }

    /// Spawns children for agents by name, all or none, and once per tool call of the last turn.
    pub async fn delegate(
        &self,
        call: &str,
        mut children: Vec<NewDelegation>,
        operator: &Operator,
    ) -> Result<Vec<Spawned>, Stop> {
        let trace = trace::traceparent().or_else(|| self.assignment.traceparent.clone());
        for child in &mut children {
            child.task.traceparent.clone_from(&trace);
        }
        let spawned = self.retry(|| self.lease.delegate(call, &children, operator)).await?;
        telemetry::log_spawned(self, &spawned);
        Ok(spawned)
    }

    /// The agents of the session, which this task can delegate to.
    pub async fn agents(&self) -> Result<Vec<Agent>, Stop> {
        self.retry(|| self.lease.store().agents(self.session())).await
    }

    /// The tenant of the session; none if the session was deleted.
    pub async fn tenant(&self) -> Result<Option<String>, Stop> {
        self.retry(|| self.lease.store().tenant_of(self.session())).await
    }

    /// The children of this task with their states.
    pub async fn children(&self) -> Result<Vec<TaskView>, Stop> {
        self.retry(|| self.lease.children()).await
    }

    /// A child that has ended, and its outcome.
    pub async fn outcome_of_child(&self, number: TaskNumber) -> Result<(TaskView, Outcome), Stop> {
        self.retry(|| self.lease.outcome_of_child(number)).await
    }

    /// Marks a child as collected and stores its outcome as a tool result, in one transaction.
    pub async fn collect_child(&self, number: TaskNumber, result: &ToolResult) -> Result<(), Stop> {
        let requested_at = Instant::now();
        self.retry(|| self.lease.collect_child(number, result)).await?;
        self.held.renewed(requested_at);
        Ok(())
    }

    /// Cancels a child and its descendants.
    pub async fn cancel_child(&self, number: TaskNumber) -> Result<(), Stop> {
        self.retry(|| self.lease.cancel_child(number)).await
    }

    /// A page of the full result of an ended task of the session.
    pub async fn read_result(&self, call: &ReadCall) -> Result<ResultPage, Stop> {
        let ReadCall { task_id, offset, limit } = *call;
        self.retry(|| self.lease.store().read_result(self.session(), task_id, offset, limit)).await
    }

    /// The time since the last turn was stored.
    pub async fn since_last_turn(&self) -> Result<Duration, Stop> {
        self.retry(|| self.lease.since_last_turn()).await
    }

    /// Retries a call while the lease is valid. The call must be idempotent.
    pub(crate) async fn retry<T, F>(&self, call: impl Fn() -> F) -> Result<T, Stop>
    where
        F: Future<Output = Result<T, Error>>,
    {
        for pause in backoff() {
            match call().await {
                Ok(output) => return Ok(output),
                Err(error) => self.before_retry(error, pause).await?,
            }
        }
        Err(Stop::LeaseLost)
    }

    /// Pauses after a transient error, unless the lease is no longer valid.
    async fn before_retry(&self, error: Error, pause: Duration) -> Result<(), Stop> {
        if let Error::LeaseLost(_) = error {
            return Err(Stop::LeaseLost);
        }
        if !error.is_transient() {
            return Err(Stop::Store(error));
        }
        warn_unless_outage!(error, task.id = %self.id(), "a database call failed, retrying: {error}");
        tokio::time::sleep(pause).await;
        self.check_lease()
    }
}
