use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use adjutant_agent::dialects::{Answer, ecs, xzatoma};
use adjutant_agent::{
    DefinitionLimits, ErrorCode, LONGEST_WAIT, Reach, Refusal, SessionId, Skill, TaskNumber, Webhook,
};
use adjutant_store::{Operator, Store, TenantLimits};
use tokio_util::sync::CancellationToken;

use crate::dialect::{Begun, Request, Seat, said_by_tool};
use crate::sessions::Sessions;
use crate::{Caller, Dialect, Hub, Result, ToolCall, note};

/// What the operator's config says that a call has to know.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    pub operator: Operator,
    pub definitions: DefinitionLimits,
    /// The models by name; agents and sessions may name no other.
    pub models: Vec<String>,
    /// Other names for them; `*` stands for every name that is not there.
    pub model_aliases: BTreeMap<String, String>,
    pub sessions: SessionLimits,
    pub tenants: TenantLimits,
    /// What agents can be given beside what they are.
    pub skills: Vec<Skill>,
    /// Where webhooks may lead.
    pub webhooks: Reach,
    pub dialects: Dialects,
}

/// What the dialects may do, and how they answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Dialects {
    /// How long a call waits for the task that it makes, before it says how to go on.
    pub longest_wait: Duration,
    pub ecs: ecs::Settings,
    pub xzatoma: xzatoma::Settings,
}

impl Default for Dialects {
    fn default() -> Self {
        Self {
            longest_wait: LONGEST_WAIT,
            ecs: ecs::Settings::default(),
            xzatoma: xzatoma::Settings::default(),
        }
    }
}

/// What a session has if it says nothing, and the most that it may say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionLimits {
    pub max_active: i32,
    pub max_queued: i32,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self { max_active: 5, max_queued: 1000 }
    }
}

impl Policy {
    /// The model that a name means.
    pub fn model(&self, name: &str) -> std::result::Result<&str, Refusal> {
        let known = self.models.iter().find(|known| *known == name);
        let known = known.or_else(|| self.model_aliases.get(name)).or_else(|| self.model_aliases.get("*"));
        known.map(String::as_str).ok_or_else(|| {
            let message = if self.models.is_empty() {
                "model: this server's config has no models".to_owned()
            } else {
                format!("model: there is none of this name; there are: {}", self.models.join(", "))
            };
            Refusal::new(ErrorCode::InvalidModel, message)
        })
    }
}

impl Policy {
    /// The skill of this name, for the argument `field`.
    pub fn skill(&self, field: &str, name: &str) -> std::result::Result<&Skill, Refusal> {
        self.skills.iter().find(|skill| skill.name == name).ok_or_else(|| {
            let start: String = name.chars().take(64).collect();
            Refusal::invalid(field, format_args!("there is no skill {start:?}"))
        })
    }
}

/// Where calls are answered, whatever wire they came over.
#[derive(Debug, Clone)]
pub struct Desk {
    pub(crate) store: Store,
    pub(crate) policy: Arc<Policy>,
    pub(crate) hub: Hub,
    sessions: Arc<Sessions>,
    /// The process is about to end: what waits answers now, and its caller goes on elsewhere.
    pub(crate) stopping: CancellationToken,
}

impl Desk {
    pub fn new(store: Store, hub: Hub, policy: Policy) -> Self {
        let store = store.within(policy.tenants);
        Self {
            store,
            hub,
            policy: Arc::new(policy),
            sessions: Arc::default(),
            stopping: CancellationToken::new(),
        }
    }

    /// Answers a tool call in the words of its dialect, and notes it in the log: who, what and how it stands, never what was
    /// said.
    pub async fn call(
        &self,
        caller: &Caller,
        session: &str,
        call: ToolCall,
        dialect: Dialect,
    ) -> Result<Answer> {
        let begun = Instant::now();
        let (task, answer) = self.answer(caller, session, &call, dialect).await;
        note::Call { session, dialect, call: &call, task, answer: &answer, took: begun.elapsed() }.note();
        answer
    }

    /// The answer, and the task that was waited for.
    async fn answer(
        &self,
        caller: &Caller,
        session: &str,
        call: &ToolCall,
        dialect: Dialect,
    ) -> (Option<TaskNumber>, Result<Answer>) {
        let request = match Request::read(call, dialect) {
            Ok(Request::Refused(answer)) => return (None, Ok(answer)),
            Ok(request) => request,
            Err(refusal) => return (None, Err(refusal.into())),
        };
        match self.begin_in(caller, session, call, &request).await {
            Err(error) => (None, Err(error)),
            Ok((_, Begun::Over(answer))) => (None, Ok(answer)),
            Ok((seat, Begun::Waits(task))) => {
                let answer = self.wait_and_show(&seat, dialect, task).await;
                (Some(task), answer.or_else(|error| said_by_tool(&request, error)))
            }
        }
    }

    /// Does what a call asks for but for the waiting, for a caller that comes again for its answer.
    pub(crate) async fn begin_call(
        &self,
        caller: &Caller,
        session: &str,
        call: &ToolCall,
        request: &Request,
        dialect: Dialect,
    ) -> Result<Begun> {
        let since = Instant::now();
        let (task, answer) = match self.begin_in(caller, session, call, request).await {
            Ok((_, Begun::Over(answer))) => (None, Ok(answer)),
            // Who reads the log is told that it was begun.
            Ok((_, Begun::Waits(task))) => (Some(task), Ok(Answer::plain("").of_what_goes_on())),
            Err(error) => (None, Err(error)),
        };
        note::Call { session, dialect, call, task, answer: &answer, took: since.elapsed() }.note();
        match task {
            Some(task) => Ok(Begun::Waits(task)),
            None => answer.map(Begun::Over),
        }
    }

    /// Does what a call asks for in the session of this name, but for the waiting.
    pub(crate) async fn begin_in<'a>(
        &self,
        caller: &'a Caller,
        session: &'a str,
        call: &ToolCall,
        request: &Request,
    ) -> Result<(Seat<'a>, Begun)> {
        let seat = |id| Seat { tenant: &caller.tenant, name: session, id };
        if let Some(known) = self.sessions.known(&caller.tenant, session) {
            match self.begin(&seat(known), call, request).await {
                Err(error) if error.code() == ErrorCode::SessionNotFound => {
                    self.sessions.forget(&caller.tenant, session);
                }
                begun => return begun.map(|begun| (seat(known), begun)),
            }
        }
        let id = self.session(caller, session).await?;
        let begun = self.begin(&seat(id), call, request).await?;
        Ok((seat(id), begun))
    }

    /// Whether this process has met the session; it may be gone again.
    pub(crate) fn has_met(&self, caller: &Caller, session: &str) -> bool {
        self.sessions.known(&caller.tenant, session).is_some()
    }

    /// Refuses webhooks, each in the field of this name, that cannot be told anything.
    pub(crate) async fn check_webhooks<'a>(
        &self,
        session: SessionId,
        webhooks: impl Iterator<Item = (String, &'a Webhook)>,
    ) -> Result<()> {
        let mut any = false;
        for (field, webhook) in webhooks {
            webhook.check(&field, self.policy.webhooks)?;
            any = true;
        }
        if any {
            self.store.check_webhook_secret_of(session).await?;
        }
        Ok(())
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
