use std::sync::Arc;
use std::time::{Duration, Instant};

use adjutant_agent::{
    Child, ContextCall, EarlierTask, Outcome, ReadCall, SessionId, StoredTurn, TaskId, TaskNumber,
    ToolResult, Turn,
};
use adjutant_store::{
    Agent, Assignment, Clearance, Error, IdempotencyKey, Lease, NewDelegation, NewTask, Operator, ResultPage,
    Spawned,
};
use tokio_util::sync::CancellationToken;

use crate::claim::Claimed;
use crate::fault;
use crate::handler::Stop;
use crate::held::{Hold, lock};
use crate::station::{Station, backoff};
use crate::telling::Telling;
use crate::{report, trace};

/// A gate holds everybody back a quarter of a second after it was closed, so what is known of it may be this old.
const FRESH: Duration = Duration::from_millis(100);

/// A clearance, and how long ago it was asked for.
#[derive(Debug)]
pub struct Cleared {
    clearance: Clearance,
    asked_at: Instant,
}

impl Cleared {
    /// The clearance, unless it is too old to go by.
    pub fn if_fresh(self) -> Option<Clearance> {
        (self.asked_at.elapsed() < FRESH).then_some(self.clearance)
    }
}

/// A task at one attempt, as its handler has it: what is asked, and the right to store progress.
#[derive(Debug)]
pub struct Task {
    assignment: Assignment,
    pub(crate) lease: Lease,
    hold: Arc<Hold>,
    draining: CancellationToken,
    telling: Telling,
    pool: String,
}

impl Task {
    pub(crate) fn new(claimed: Claimed, station: &Station) -> Self {
        let Claimed { claim, hold } = claimed;
        let (lease, assignment) = (claim.lease, claim.assignment);
        let telling = Telling::of(lease.store().clone(), lease.session(), lease.task(), assignment.number);
        let (draining, pool) = (station.draining.clone(), station.settings.pool.clone());
        Self { assignment, lease, hold, draining, telling, pool }
    }

    /// The pool that it runs in.
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

    /// Model answers stored so far, by this attempt and those before it.
    pub fn answers(&self) -> i32 {
        self.lease.answers()
    }

    /// Takes note of text that is not stored yet; it is kept if the task has to end without its answer, and told to whoever
    /// watches.
    pub fn says(&self, text: &str) {
        lock(&self.hold.saying).says(self.answers() + 1, text);
        self.telling.says(self.answers() + 1, text);
    }

    /// What was said is stored, or does not count.
    pub fn falls_silent(&self) {
        lock(&self.hold.saying).falls_silent();
        self.telling.falls_silent();
    }

    /// Text of an answer that did not come to its end.
    pub(crate) fn unfinished_text(&self) -> Option<String> {
        self.telling.falls_silent();
        let text = lock(&self.hold.saying).falls_silent();
        (!text.trim().is_empty()).then_some(text)
    }

    /// To be asked before every step that costs something: whether this worker may still do it.
    pub fn go_on(&self) -> Result<(), Stop> {
        self.check_lease()?;
        if self.draining.is_cancelled() {
            return Err(Stop::HandOver);
        }
        Ok(())
    }

    /// Whether the lease is good: what `go_on` asks, but for whether this worker is leaving.
    pub fn check_lease(&self) -> Result<(), Stop> {
        if self.hold.is_good() { Ok(()) } else { Err(Stop::LeaseLost) }
    }

    /// Waits for so long, or until this worker is leaving.
    pub async fn pause(&self, time: Duration) {
        tokio::select! {
            () = tokio::time::sleep(time) => {}
            () = self.draining.cancelled() => {}
        }
    }

    /// What comes of something that may take long to begin; who is leaving does not wait for it.
    pub async fn unless_leaving<T>(&self, coming: impl Future<Output = T>) -> Result<T, Stop> {
        tokio::select! {
            biased;
            () = self.draining.cancelled() => Err(Stop::HandOver),
            come = coming => Ok(come),
        }
    }

    /// What earlier attempts have stored.
    pub async fn turns(&self) -> Result<Vec<StoredTurn>, Stop> {
        if self.answers() == 0 {
            return Ok(Vec::new());
        }
        self.insist(|| self.lease.store().turns(self.id())).await
    }

    /// What the tasks have stored that this one continues, the oldest first.
    pub async fn earlier_tasks(&self) -> Result<Vec<EarlierTask>, Stop> {
        self.insist(|| self.lease.store().earlier_tasks(&self.assignment.config)).await
    }

    /// Stores the next turn, and renews the lease. After this its model call is never made again.
    pub async fn checkpoint(&mut self, turn: &Turn) -> Result<(), Stop> {
        for pause in backoff() {
            let asked_at = Instant::now();
            match self.lease.checkpoint(turn).await {
                Ok(()) => {
                    self.stored(asked_at);
                    return Ok(());
                }
                Err(error) => self.wait_out(error, pause).await?,
            }
        }
        Err(Stop::LeaseLost)
    }

    /// As [`Task::checkpoint`], and asks in the same call what has to be known before the model is called again.
    pub async fn checkpoint_and_clear(&mut self, turn: &Turn, model: &str) -> Result<Cleared, Stop> {
        for pause in backoff() {
            let asked_at = Instant::now();
            match self.lease.checkpoint_and_clear(turn, model).await {
                Ok(clearance) => {
                    self.stored(asked_at);
                    return Ok(Cleared { clearance, asked_at });
                }
                Err(error) => self.wait_out(error, pause).await?,
            }
        }
        Err(Stop::LeaseLost)
    }

    fn stored(&self, asked_at: Instant) {
        self.hold.renewed(asked_at);
        self.falls_silent();
        fault::point("checkpointed");
    }

    /// Stores what a call of this tool in the last turn gave, and renews the lease; a tool that the agent does not have is
    /// not named.
    pub async fn tool_result(&self, tool: Option<&str>, result: &ToolResult) -> Result<(), Stop> {
        let asked_at = Instant::now();
        self.insist(|| self.lease.tool_result(tool, result)).await?;
        self.hold.renewed(asked_at);
        Ok(())
    }

    /// Makes a call of the last turn to the shared context and stores its result, both or neither, and renews the lease.
    pub async fn shared_context(&self, call_id: &str, call: &ContextCall) -> Result<ToolResult, Stop> {
        let asked_at = Instant::now();
        let result = self.insist(|| self.lease.shared_context(call_id, call)).await?;
        self.hold.renewed(asked_at);
        Ok(result)
    }

    /// What has to be known before a model is called.
    pub async fn clearance(&self, model: &str) -> Result<Clearance, Stop> {
        self.insist(|| self.lease.store().clearance(self.id(), self.session(), model)).await
    }

    /// Holds a model back on all workers.
    pub async fn close_gate(&self, model: &str, time: Duration) -> Result<(), Stop> {
        self.insist(|| self.lease.store().close_gate(model, time)).await
    }

    /// Makes children, all or none; with a key, once, however often it is asked. They go on in the trace of their parent.
    pub async fn spawn(&self, children: &[NewTask], key: IdempotencyKey<'_>) -> Result<Vec<Spawned>, Stop> {
        let children = trace::in_this_trace(children, self.assignment.traceparent.as_deref());
        let spawned = self.insist(|| self.lease.spawn(&children, Some(key))).await?;
        report::spawned(self, &spawned);
        Ok(spawned)
    }

    /// Gives children to agents by their names, all or none. A call of the last turn makes them once, however often it is made.
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
        let spawned = self.insist(|| self.lease.delegate(call, &children, operator)).await?;
        report::spawned(self, &spawned);
        Ok(spawned)
    }

    /// Makes children that have their configurations; otherwise as [`Task::delegate`].
    pub async fn spawn_by_call(&self, call: &str, children: &[NewTask]) -> Result<Vec<Spawned>, Stop> {
        let children = trace::in_this_trace(children, self.assignment.traceparent.as_deref());
        let spawned = self.insist(|| self.lease.spawn_by_call(call, &children)).await?;
        report::spawned(self, &spawned);
        Ok(spawned)
    }

    /// The agents that it can give tasks to.
    pub async fn agents(&self) -> Result<Vec<Agent>, Stop> {
        self.insist(|| self.lease.store().agents(self.session())).await
    }

    /// How its children stand.
    pub async fn children(&self) -> Result<Vec<Child>, Stop> {
        self.insist(|| self.lease.children()).await
    }

    /// A child that has ended, and what came of it.
    pub async fn outcome_of_child(&self, number: TaskNumber) -> Result<(Child, Outcome), Stop> {
        self.insist(|| self.lease.outcome_of_child(number)).await
    }

    /// Hands a child's outcome over as the result of a call, both or neither.
    pub async fn collect_child(&self, number: TaskNumber, result: &ToolResult) -> Result<(), Stop> {
        let asked_at = Instant::now();
        self.insist(|| self.lease.collect_child(number, result)).await?;
        self.hold.renewed(asked_at);
        Ok(())
    }

    /// Stops a child and all below it.
    pub async fn cancel_child(&self, number: TaskNumber) -> Result<(), Stop> {
        self.insist(|| self.lease.cancel_child(number)).await
    }

    /// A page of the full text of a task of the session that has ended.
    pub async fn read_result(&self, call: &ReadCall) -> Result<ResultPage, Stop> {
        let ReadCall { task_id, offset, limit } = *call;
        self.insist(|| self.lease.store().read_result(self.session(), task_id, offset, limit)).await
    }

    /// How long ago its last turn was stored.
    pub async fn since_last_turn(&self) -> Result<Duration, Stop> {
        self.insist(|| self.lease.since_last_turn()).await
    }

    /// Asks until there is an answer, for as long as the lease is good. What is asked is safe to be asked twice.
    async fn insist<T, F>(&self, ask: impl Fn() -> F) -> Result<T, Stop>
    where
        F: Future<Output = Result<T, Error>>,
    {
        for pause in backoff() {
            match ask().await {
                Ok(answer) => return Ok(answer),
                Err(error) => self.wait_out(error, pause).await?,
            }
        }
        Err(Stop::LeaseLost)
    }

    /// A database that is away is waited for as long as the lease is good.
    async fn wait_out(&self, error: Error, pause: Duration) -> Result<(), Stop> {
        if let Error::LeaseLost(_) = error {
            return Err(Stop::LeaseLost);
        }
        if !error.is_passing() {
            return Err(Stop::Store(error));
        }
        tracing::warn!(task.id = %self.id(), "cannot store progress, trying again: {error}");
        tokio::time::sleep(pause).await;
        self.check_lease()
    }
}
