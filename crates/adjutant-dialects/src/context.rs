use adjutant_agent::{Grants, Refusal, SHARED_CONTEXT, SessionId, TaskNumber, Webhook, no_tool};
use adjutant_store::Store;
use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::{Answer, Policy, Result};

/// What a server lends to a dialect for one call.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// Acts for the caller.
    pub store: &'a Store,
    pub policy: &'a Policy,
    pub watcher: &'a dyn SessionWatcher,
    /// The process is about to end: a call that waits answers early, and its client calls again at
    /// another server.
    pub stopping: &'a CancellationToken,
}

/// Subscribes to the events of sessions.
pub trait SessionWatcher: Send + Sync {
    /// Every event after this returns wakes the watch.
    fn watch(&self, session: SessionId) -> Box<dyn SessionWatch>;
}

/// A subscription to the events of one session.
pub trait SessionWatch: Send {
    /// Returns when there may be a new event.
    fn changed(&mut self) -> BoxFuture<'_, ()>;
}

/// The session of a call.
#[derive(Debug, Clone, Copy)]
pub struct SessionRef<'a> {
    pub tenant: &'a str,
    pub name: &'a str,
    pub id: SessionId,
}

/// What a call has led to so far.
#[derive(Debug)]
pub enum Started {
    Answered(Answer),
    /// The answer is the outcome of this task.
    Waiting(TaskNumber),
}

impl Context<'_> {
    /// What the caller may use.
    pub(crate) fn grants(&self) -> &Grants {
        self.store.grants()
    }

    /// The configured model of this name or alias, if it is granted to the caller.
    pub(crate) fn model(&self, name: &str) -> std::result::Result<&str, Refusal> {
        self.policy.model(name, self.grants())
    }

    /// Refuses webhooks, each in the field of this name, to which no delivery could be made.
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

    /// Refuses tools that no worker has announced, or that the caller may not use. The shared
    /// context always exists.
    pub async fn refuse_unknown_tools(&self, tools: &[String]) -> Result<()> {
        self.grants().check_tools("tools", tools)?;
        let tools: Vec<String> =
            tools.iter().filter(|tool| *tool != SHARED_CONTEXT).cloned().collect();
        if tools.is_empty() {
            return Ok(());
        }
        let unknown = self.store.unknown_tools(&tools).await?;
        unknown.first().map_or(Ok(()), |first| Err(no_tool("tools", first).into()))
    }
}
