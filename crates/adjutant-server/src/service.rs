use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use adjutant_agent::{ErrorCode, Refusal, SessionId, TaskNumber, TextLimits};
use adjutant_dialects::{
    Answer, Context, Dialect, ParsedCall, Policy, RefusedCall, SessionRef, SessionWatch,
    SessionWatcher, Started, ToolCall,
};
use adjutant_store::{Store, warn_unless_outage};
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::call_log::CallLog;
use crate::hub::KeyHold;
use crate::session_cache::SessionCache;
use crate::tenant_counter::{Permit, TenantCounter};
use crate::{Caller, Error, Hub, Result, Watch};

impl SessionWatcher for Hub {
    fn watch(&self, session: SessionId) -> Box<dyn SessionWatch> {
        Box::new(Hub::watch(self, session))
    }
}

impl SessionWatch for Watch {
    fn changed(&mut self) -> BoxFuture<'_, ()> {
        Watch::changed(self).boxed()
    }
}

/// The most calls of a tenant that wait at a time.
pub(crate) const MAX_WAITS: usize = 500;

/// When a client that was refused should try again: some wait has probably ended by then.
const RETRY_WAIT_AFTER: Duration = Duration::from_secs(5);

/// The right to wait, until it is dropped; empty for a call that does not wait.
#[derive(Debug, Default)]
struct Wait {
    _permit: Option<Permit>,
    key: Option<KeyHold>,
}

impl Wait {
    /// Returns when the key of the call is no longer valid.
    async fn key_ended(&self) -> Error {
        match &self.key {
            Some(key) => key.ended().await,
            None => std::future::pending().await,
        }
    }
}

/// Answers tool calls, whichever transport they came over.
#[derive(Debug, Clone)]
pub struct ToolService {
    pub(crate) store: Store,
    pub(crate) policy: Arc<Policy>,
    pub(crate) hub: Hub,
    session_cache: Arc<SessionCache>,
    waits: TenantCounter,
    /// Whether there was a call since the last fold of usage.
    called: Arc<AtomicBool>,
    /// Cancelled at shutdown: calls that wait answer at once, and their clients continue elsewhere.
    pub(crate) stopping: CancellationToken,
}

impl ToolService {
    pub fn new(store: Store, hub: Hub, policy: Policy) -> Self {
        let store = store.with_limits(policy.tenants).with_text_limits(policy.operator.texts);
        Self {
            store,
            hub,
            policy: Arc::new(policy),
            session_cache: Arc::default(),
            waits: TenantCounter::new(MAX_WAITS),
            called: Arc::default(),
            stopping: CancellationToken::new(),
        }
    }

    /// The most calls of a tenant that wait at a time, instead of [`MAX_WAITS`].
    pub(crate) fn with_max_waits(self, max_per_tenant: usize) -> Self {
        Self { waits: TenantCounter::new(max_per_tenant), ..self }
    }

    /// The longest time of one search of the history.
    pub(crate) fn with_search_time(self, search_time: Duration) -> Self {
        Self { store: self.store.with_search_time(search_time), ..self }
    }

    /// Whether there was a call since the last one of this.
    pub(crate) fn take_called(&self) -> bool {
        self.called.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn mark_called(&self) {
        self.called.store(true, Ordering::Relaxed);
    }

    /// The store that acts for a caller.
    pub(crate) fn store_of(&self, caller: &Caller) -> Store {
        self.store.acting_for(caller.actor())
    }

    /// The longest texts that callers may send.
    pub(crate) fn texts(&self) -> &TextLimits {
        &self.policy.operator.texts
    }

    /// The parts of this server that dialects use, with the store that acts for their caller.
    pub(crate) fn context<'a>(&'a self, store: &'a Store) -> Context<'a> {
        Context { store, policy: &self.policy, watcher: &self.hub, stopping: &self.stopping }
    }

    /// Answers a tool call in the form of its dialect, and logs it: names, ids and states, but no
    /// payload.
    pub async fn call(
        &self,
        caller: &Caller,
        session: &str,
        call: ToolCall,
        dialect: Dialect,
    ) -> Result<Answer> {
        let call = self.parse(&caller.tenant, session, call, dialect)?;
        self.call_parsed(caller, session, &call, &CancellationToken::new()).await
    }

    /// Parses a call, and logs a refusal.
    pub(crate) fn parse(
        &self,
        tenant: &str,
        session: &str,
        call: ToolCall,
        dialect: Dialect,
    ) -> Result<ParsedCall> {
        let started = Instant::now();
        ParsedCall::parse(call, dialect, self.texts()).map_err(|refused| {
            let RefusedCall { call, refusal } = *refused;
            let answer = Err(refusal.clone().into());
            let (task, duration) = (None, started.elapsed());
            CallLog { tenant, session, dialect, call: &call, task, answer: &answer, duration }
                .write();
            refusal.into()
        })
    }

    /// Answers a parsed call. If the client cancels it while it waits for a task, the task is
    /// cancelled.
    pub(crate) async fn call_parsed(
        &self,
        caller: &Caller,
        session: &str,
        call: &ParsedCall,
        cancelled: &CancellationToken,
    ) -> Result<Answer> {
        let started = Instant::now();
        let may_wait = call.start_waits() || call.waits_for_task();
        let span = call_span(caller, session);
        let (task, answer) = match self.begin_wait(caller, may_wait) {
            Err(error) => (None, Err(error)),
            Ok(wait) => tokio::select! {
                biased;
                answered = self.answer(caller, session, call, cancelled).instrument(span) => answered,
                error = wait.key_ended() => (None, Err(error)),
            },
        };
        CallLog::of(&caller.tenant, session, call, task, &answer, started.elapsed()).write();
        answer
    }

    /// The answer to a call, and the task that it waited for.
    async fn answer(
        &self,
        caller: &Caller,
        session: &str,
        call: &ParsedCall,
        cancelled: &CancellationToken,
    ) -> (Option<TaskNumber>, Result<Answer>) {
        match self.start_in(caller, session, call).await {
            Err(error) => (None, Err(error)),
            Ok((_, Started::Answered(answer))) => (None, Ok(answer)),
            Ok((session_ref, Started::Waiting(task))) => {
                let store = self.store_of(caller);
                let context = self.context(&store);
                let answer = tokio::select! {
                    answer = Box::pin(call.wait(&context, &session_ref, task)) => answer,
                    () = cancelled.cancelled() => {
                        Box::pin(self.cancel_for_client(store.clone(), session_ref.id, task)).await;
                        Ok(Answer::plain("Cancelled by the client").as_error())
                    }
                };
                (Some(task), answer.map_err(crate::Error::from))
            }
        }
    }

    /// Counts a call that may wait, before it spawns what it would wait for; refused if its tenant
    /// has too many.
    fn begin_wait(&self, caller: &Caller, may_wait: bool) -> Result<Wait> {
        if !may_wait {
            return Ok(Wait::default());
        }
        let permit = self.waits.take(&caller.tenant);
        let permit = permit
            .map_err(|exceeded| Error::too_many("calls that wait", exceeded, RETRY_WAIT_AFTER))?;
        Ok(Wait { _permit: Some(permit), key: Some(self.hub.hold_key(caller.key_id())) })
    }

    /// Cancels the task of a call that its client has cancelled, even if the client disconnects
    /// meanwhile.
    async fn cancel_for_client(&self, store: Store, session: SessionId, task: TaskNumber) {
        let service = self.clone();
        let cancelling = tokio::spawn(async move {
            let context = service.context(&store);
            if let Err(error) = context.cancel_for_client(session, task).await {
                warn_unless_outage!(error, task.number = %task, "cancel of {task} for its client failed: {error}");
            }
        });
        // The only error is a panic, which the panic hook has printed.
        let _ = cancelling.await;
    }

    /// Executes a call except for its wait, for a client that polls.
    pub(crate) async fn start_call(
        &self,
        caller: &Caller,
        session: &str,
        call: &ParsedCall,
    ) -> Result<Started> {
        let started = Instant::now();
        let span = call_span(caller, session);
        let begun = match self.begin_wait(caller, call.start_waits()) {
            Err(error) => Err(error),
            Ok(wait) => tokio::select! {
                biased;
                begun = self.start_in(caller, session, call).instrument(span) => begun.map(|(_, begun)| begun),
                error = wait.key_ended() => Err(error),
            },
        };
        let (task, answer) = match begun {
            Ok(Started::Answered(answer)) => (None, Ok(answer)),
            // For the log, which shows the task as running.
            Ok(Started::Waiting(task)) => (Some(task), Ok(Answer::plain("").of_running_task())),
            Err(error) => (None, Err(error)),
        };
        CallLog::of(&caller.tenant, session, call, task, &answer, started.elapsed()).write();
        match task {
            Some(task) => Ok(Started::Waiting(task)),
            None => answer.map(Started::Answered),
        }
    }

    /// Executes a call except for its wait, in the session with this name. What happens rarely is
    /// boxed: most calls that wait do so in here, and each has room for all that may happen.
    async fn start_in<'a>(
        &self,
        caller: &'a Caller,
        session: &'a str,
        call: &ParsedCall,
    ) -> Result<(SessionRef<'a>, Started)> {
        self.mark_called();
        let session_ref = |id| SessionRef { tenant: &caller.tenant, name: session, id };
        let store = self.store_of(caller);
        let context = self.context(&store);
        if let Some(id) = self.session_cache.get(&caller.tenant, session) {
            match call.start(&context, &session_ref(id)).await.map_err(crate::Error::from) {
                Err(error) if error.code() == ErrorCode::SessionNotFound => {
                    self.session_cache.remove(&caller.tenant, session);
                }
                started => return started.map(|started| (session_ref(id), started)),
            }
        }
        let id = Box::pin(self.find_session(caller, session)).await?;
        let started = call.start(&context, &session_ref(id)).await?;
        Ok((session_ref(id), started))
    }

    /// Whether the session is in the cache; it may have been deleted.
    pub(crate) fn is_cached(&self, caller: &Caller, session: &str) -> bool {
        self.session_cache.get(&caller.tenant, session).is_some()
    }

    async fn find_session(&self, caller: &Caller, name: &str) -> Result<SessionId> {
        // PostgreSQL cannot store a NUL, so there is no such session.
        if name.contains('\0') {
            return Err(Refusal::new(ErrorCode::SessionNotFound, "Session not found").into());
        }
        let id = self.store.session(&caller.tenant, name).await?.id;
        self.session_cache.insert(&caller.tenant, name, id);
        Ok(id)
    }
}

/// The lines of a call have its tenant and its session. It is no span of a trace.
fn call_span(caller: &Caller, session: &str) -> tracing::Span {
    tracing::debug_span!("tool_call", tenant = caller.tenant, session.id = session)
}
