use std::sync::Arc;
use std::time::{Duration, Instant};

use adjutant_agent::{ErrorCode, Refusal, SessionId, TaskNumber};
use adjutant_dialects::{
    Answer, Context, Dialect, ParsedCall, Policy, RefusedCall, SessionRef, SessionWatch,
    SessionWatcher, Started, ToolCall,
};
use adjutant_store::Store;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::sessions::Sessions;
use crate::{Caller, Hub, Result, Watch, note};

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

/// Where calls are answered, whatever wire they came over.
#[derive(Debug, Clone)]
pub struct ToolService {
    pub(crate) store: Store,
    pub(crate) policy: Arc<Policy>,
    pub(crate) hub: Hub,
    sessions: Arc<Sessions>,
    /// The process is about to end: what waits answers now, and its caller goes on elsewhere.
    pub(crate) stopping: CancellationToken,
}

impl ToolService {
    pub fn new(store: Store, hub: Hub, policy: Policy) -> Self {
        let store = store.with_limits(policy.tenants);
        Self {
            store,
            hub,
            policy: Arc::new(policy),
            sessions: Arc::default(),
            stopping: CancellationToken::new(),
        }
    }

    /// What a dialect needs of this server.
    pub(crate) fn context(&self) -> Context<'_> {
        Context {
            store: &self.store,
            policy: &self.policy,
            watcher: &self.hub,
            stopping: &self.stopping,
        }
    }

    /// Answers a tool call in the words of its dialect, and logs it: caller, action and state, but no payload.
    pub async fn call(
        &self,
        caller: &Caller,
        session: &str,
        call: ToolCall,
        dialect: Dialect,
    ) -> Result<Answer> {
        let call = self.parse(session, call, dialect)?;
        self.call_parsed(caller, session, &call, &CancellationToken::new()).await
    }

    /// Parses a call, and logs a call that is refused.
    pub(crate) fn parse(
        &self,
        session: &str,
        call: ToolCall,
        dialect: Dialect,
    ) -> Result<ParsedCall> {
        ParsedCall::parse(call, dialect).map_err(|refused| {
            let RefusedCall { call, refusal } = *refused;
            let answer = Err(refusal.clone().into());
            let (task, took) = (None, Duration::ZERO);
            note::Call { session, dialect, call: &call, task, answer: &answer, took }.note();
            refusal.into()
        })
    }

    /// Answers a call that was parsed before. If the client cancels it while it waits for a task, the task is cancelled.
    pub(crate) async fn call_parsed(
        &self,
        caller: &Caller,
        session: &str,
        call: &ParsedCall,
        cancelled: &CancellationToken,
    ) -> Result<Answer> {
        let started = Instant::now();
        let (task, answer) = match self.start_in(caller, session, call).await {
            Err(error) => (None, Err(error)),
            Ok((_, Started::Answered(answer))) => (None, Ok(answer)),
            Ok((session_ref, Started::Waiting(task))) => {
                let context = self.context();
                let answer = tokio::select! {
                    answer = call.wait(&context, &session_ref, task) => answer,
                    () = cancelled.cancelled() => {
                        self.cancel_for_client(session_ref.id, task).await;
                        Ok(Answer::plain("Cancelled by the client").as_error())
                    }
                };
                (Some(task), answer.map_err(crate::Error::from))
            }
        };
        note::Call::of(session, call, task, &answer, started.elapsed()).note();
        answer
    }

    /// Cancels the task of a call that its client has cancelled. It is done even if the client closes its connection meanwhile.
    async fn cancel_for_client(&self, session: SessionId, task: TaskNumber) {
        let service = self.clone();
        let cancelling = tokio::spawn(async move {
            if let Err(error) = service.context().cancel_for_client(session, task).await {
                tracing::warn!(task.number = %task, "cannot cancel the task of a cancelled call: {error}");
            }
        });
        // A panic is logged by the runtime, and there is nobody to report it to.
        let _ = cancelling.await;
    }

    /// Does everything that a call asks for except for waiting, for a client that polls.
    pub(crate) async fn start_call(
        &self,
        caller: &Caller,
        session: &str,
        call: &ParsedCall,
    ) -> Result<Started> {
        let started = Instant::now();
        let (task, answer) = match self.start_in(caller, session, call).await {
            Ok((_, Started::Answered(answer))) => (None, Ok(answer)),
            // The log says that the task runs.
            Ok((_, Started::Waiting(task))) => {
                (Some(task), Ok(Answer::plain("").of_running_task()))
            }
            Err(error) => (None, Err(error)),
        };
        note::Call::of(session, call, task, &answer, started.elapsed()).note();
        match task {
            Some(task) => Ok(Started::Waiting(task)),
            None => answer.map(Started::Answered),
        }
    }

    /// Does everything that a call asks for in the session of this name, except for waiting.
    async fn start_in<'a>(
        &self,
        caller: &'a Caller,
        session: &'a str,
        call: &ParsedCall,
    ) -> Result<(SessionRef<'a>, Started)> {
        let session_ref = |id| SessionRef { tenant: &caller.tenant, name: session, id };
        let context = self.context();
        if let Some(known) = self.sessions.known(&caller.tenant, session) {
            match call.start(&context, &session_ref(known)).await.map_err(crate::Error::from) {
                Err(error) if error.code() == ErrorCode::SessionNotFound => {
                    self.sessions.forget(&caller.tenant, session);
                }
                started => return started.map(|started| (session_ref(known), started)),
            }
        }
        let id = self.session(caller, session).await?;
        let started = call.start(&context, &session_ref(id)).await?;
        Ok((session_ref(id), started))
    }

    /// Whether this process has met the session; it may be gone again.
    pub(crate) fn has_met(&self, caller: &Caller, session: &str) -> bool {
        self.sessions.known(&caller.tenant, session).is_some()
    }

    async fn session(&self, caller: &Caller, name: &str) -> Result<SessionId> {
        // What cannot be stored cannot be there.
        if name.contains('\0') {
            return Err(Refusal::new(ErrorCode::SessionNotFound, "Session not found").into());
        }
        let id = self.store.session(&caller.tenant, name).await?.id;
        self.sessions.remember(&caller.tenant, name, id);
        Ok(id)
    }
}
