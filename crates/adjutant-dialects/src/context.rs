use adjutant_agent::{ErrorCode, Refusal, SHARED_CONTEXT, SessionId, TaskNumber, Webhook};
use adjutant_store::Store;
use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::{Answer, Policy, Result};

/// What a server lends to a dialect for one call.
#[derive(Clone, Copy)]
pub struct Context<'a> {
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

    /// Refuses tools that no worker has announced. The shared context always exists.
    pub async fn refuse_unknown_tools(&self, tools: &[String]) -> Result<()> {
        let tools: Vec<String> =
            tools.iter().filter(|tool| *tool != SHARED_CONTEXT).cloned().collect();
        if tools.is_empty() {
            return Ok(());
        }
        let unknown = self.store.unknown_tools(&tools).await?;
        let Some(first) = unknown.first() else { return Ok(()) };
        let start: String = first.chars().take(64).collect();
        Err(Refusal::new(ErrorCode::InvalidTool, format!("tools: there is no tool {start:?}"))
            .into())
    }
}
