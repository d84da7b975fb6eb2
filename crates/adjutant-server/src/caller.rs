use adjutant_agent::ErrorCode;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

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

impl Scope {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Delegate => "delegate",
            Self::Read => "read",
            Self::Admin => "admin",
        }
    }

    /// The scope of this name, as a key has it.
    pub fn named(word: &str) -> Option<Self> {
        [Self::Delegate, Self::Read, Self::Admin].into_iter().find(|scope| scope.as_str() == word)
    }
}

/// The caller of a request. It sees only what belongs to its tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    pub tenant: String,
    pub scopes: Vec<Scope>,
}

impl Caller {
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.contains(&Scope::Admin) || self.scopes.contains(&scope)
    }

    /// Refuses a caller that has none of these scopes.
    pub(crate) fn needs(&self, scopes: &[Scope]) -> Result<()> {
        if scopes.iter().any(|scope| self.may(*scope)) {
            return Ok(());
        }
        let words: Vec<&str> = scopes.iter().map(|scope| scope.as_str()).collect();
        let message = format!("This needs a key with the scope {}", words.join(" or "));
        Err(Error::refused(ErrorCode::Forbidden, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_allows_what_it_says_and_admin_allows_all() {
        let caller = |scopes: &[Scope]| Caller { tenant: "t".to_owned(), scopes: scopes.to_vec() };
        let reader = caller(&[Scope::Read]);
        assert!(reader.needs(&[Scope::Delegate, Scope::Read]).is_ok());
        let refusal = reader.needs(&[Scope::Delegate]).unwrap_err();
        assert_eq!(refusal.code(), ErrorCode::Forbidden);
        assert_eq!(refusal.to_string(), "FORBIDDEN: This needs a key with the scope delegate");
        assert!(caller(&[]).needs(&[Scope::Read]).is_err());
        assert!(caller(&[Scope::Admin]).needs(&[Scope::Delegate]).is_ok());
        assert!(caller(&[Scope::Delegate, Scope::Read]).needs(&[Scope::Admin]).is_err());
    }
}
