use std::net::IpAddr;
use std::sync::Arc;

use adjutant_agent::Grants;
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use crate::json::to_json;
use crate::{Result, Store};

/// How an actor reaches the database.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ActorSource {
    /// Through a server.
    #[default]
    Api,
    /// By a command that works on the database.
    Cli,
}

/// The caller that a [`Store`] acts for: it bounds what the calls may use, and is named in the
/// audit of its changes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Actor {
    pub source: ActorSource,
    /// Its tenant; `None` for an operator, who acts for all of them.
    pub tenant: Option<String>,
    #[serde(skip)]
    pub grants: Arc<Grants>,
    /// The id of its API key, if it has one.
    pub key: Option<Uuid>,
    /// The name of its key, or of the user of the operating system.
    pub name: String,
    /// The address of the client, behind proxies that the operator trusts.
    pub address: Option<IpAddr>,
}

impl Store {
    /// What its caller may use.
    pub fn grants(&self) -> &Grants {
        self.actor.as_ref().map_or(&Grants::EVERYTHING, |actor| &actor.grants)
    }

    /// The caller as `audit_1` takes it; none for a worker, whose changes are not audited.
    pub(crate) fn audited(&self) -> Result<Option<Value>> {
        self.actor.as_deref().map(to_json).transpose()
    }

    /// The tenant of its caller, if it has one.
    pub(crate) fn actors_tenant(&self) -> Option<&str> {
        self.actor.as_ref()?.tenant.as_deref()
    }
}
