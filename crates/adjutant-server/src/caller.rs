use std::net::IpAddr;
use std::sync::Arc;

use adjutant_agent::{ErrorCode, Grants};
use adjutant_store::{Actor, ActorSource};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{Error, Result};

/// A permission of an API key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Sessions, agents, tasks, shared context.
    Delegate,
    /// The history and statistics of the tenant.
    Read,
    /// Keys and the limits of the fleet; includes the other scopes.
    Admin,
}

impl Scope {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Delegate => "delegate",
            Self::Read => "read",
            Self::Admin => "admin",
        }
    }

    /// The scope with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Delegate, Self::Read, Self::Admin].into_iter().find(|scope| scope.as_str() == name)
    }
}

/// The caller of a request. It sees only data of its tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    pub tenant: String,
    pub scopes: Vec<Scope>,
    /// Limits what it and its tasks may use.
    pub grants: Arc<Grants>,
    /// Its API key, if it has one.
    pub key: Option<CallerKey>,
    /// The address of the client, behind proxies that the operator trusts.
    pub address: Option<IpAddr>,
}

/// The API key of a caller, without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallerKey {
    pub id: Uuid,
    pub name: String,
}

impl Caller {
    /// A caller with no other limits than these scopes.
    pub fn new(tenant: impl Into<String>, scopes: &[Scope]) -> Self {
        Self {
            tenant: tenant.into(),
            scopes: scopes.to_vec(),
            grants: Arc::default(),
            key: None,
            address: None,
        }
    }

    pub(crate) fn key_id(&self) -> Option<Uuid> {
        self.key.as_ref().map(|key| key.id)
    }

    /// The caller as the store knows it.
    pub(crate) fn actor(&self) -> Arc<Actor> {
        Arc::new(Actor {
            source: ActorSource::Api,
            tenant: Some(self.tenant.clone()),
            grants: self.grants.clone(),
            key: self.key_id(),
            name: self.key.as_ref().map_or_else(String::new, |key| key.name.clone()),
            address: self.address,
        })
    }

    pub fn has_scope(&self, scope: Scope) -> bool {
        self.scopes.contains(&Scope::Admin) || self.scopes.contains(&scope)
    }

    /// Refuses a caller that has none of these scopes.
    pub(crate) fn require(&self, scopes: &[Scope]) -> Result<()> {
        if scopes.iter().any(|scope| self.has_scope(*scope)) {
            return Ok(());
        }
        let names: Vec<&str> = scopes.iter().map(|scope| scope.as_str()).collect();
        let message = format!("This needs a key with the scope {}", names.join(" or "));
        Err(Error::refused(ErrorCode::Forbidden, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_needs_one_of_the_scopes_and_admin_includes_all() {
        let caller = |scopes: &[Scope]| Caller::new("t", scopes);
        let reader = caller(&[Scope::Read]);
        assert!(reader.require(&[Scope::Delegate, Scope::Read]).is_ok());
        let refusal = reader.require(&[Scope::Delegate]).unwrap_err();
        assert_eq!(refusal.code(), ErrorCode::Forbidden);
        assert_eq!(refusal.to_string(), "FORBIDDEN: This needs a key with the scope delegate");
        assert!(caller(&[]).require(&[Scope::Read]).is_err());
        assert!(caller(&[Scope::Admin]).require(&[Scope::Delegate]).is_ok());
        assert!(caller(&[Scope::Delegate, Scope::Read]).require(&[Scope::Admin]).is_err());
    }
}
