use std::net::IpAddr;
use std::sync::Arc;

use adjutant_agent::Grants;
use uuid::Uuid;

use crate::Store;

/// The caller that a [`Store`] acts for: it bounds what the calls may use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Actor {
    /// Its tenant; `None` for an operator, who acts for all of them.
    pub tenant: Option<String>,
    pub grants: Arc<Grants>,
    /// The id of its API key, if it has one.
    pub key: Option<Uuid>,
    /// The name of its key, or of the user of the operating system.
    pub name: String,
    /// The address of the client, behind proxies that the operator trusts.
    pub address: Option<IpAddr>,
}

impl Store {
    /// A store for the calls of one caller: it lists, defines and spawns only what the caller is
    /// granted, and its tasks carry the grants. Without an actor nothing is limited.
    pub fn acting_for(&self, actor: Arc<Actor>) -> Self {
        Self { actor: Some(actor), ..self.clone() }
    }

    /// What its caller may use.
    pub fn grants(&self) -> &Grants {
        self.actor.as_ref().map_or(&Grants::EVERYTHING, |actor| &actor.grants)
    }

    /// The tenant of its caller, if it has one.
    pub(crate) fn tenant(&self) -> Option<&str> {
        self.actor.as_ref()?.tenant.as_deref()
    }
}
