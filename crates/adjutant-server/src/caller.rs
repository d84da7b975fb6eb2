use serde::{Deserialize, Serialize};

/// What a key allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Sessions, agents, tasks, shared context.
    Delegate,
    /// The history and statistics of the tenant.
    Read,
    /// Keys and the fleet's limits; includes the others.
    Admin,
}

/// Who calls: everything that is answered is of this tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    pub tenant: String,
    pub scopes: Vec<Scope>,
}

impl Caller {
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.contains(&Scope::Admin) || self.scopes.contains(&scope)
    }
}
