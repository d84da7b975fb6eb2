use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use adjutant_agent::SessionId;

/// So many names are kept; then all of them are learned anew, which costs one look-up each.
const MOST: usize = 50_000;

/// The rows behind the names of sessions, as far as this process has met them: it saves a round trip. A row's number is never
/// used again, so one that is out of date names no session, and the name is looked up anew.
#[derive(Debug, Default)]
pub(crate) struct Sessions(Mutex<HashMap<(String, String), SessionId>>);

impl Sessions {
    pub(crate) fn known(&self, tenant: &str, name: &str) -> Option<SessionId> {
        self.names().get(&(tenant.to_owned(), name.to_owned())).copied()
    }

    pub(crate) fn remember(&self, tenant: &str, name: &str, id: SessionId) {
        let mut names = self.names();
        if names.len() >= MOST {
            names.clear();
        }
        names.insert((tenant.to_owned(), name.to_owned()), id);
    }

    pub(crate) fn forget(&self, tenant: &str, name: &str) {
        self.names().remove(&(tenant.to_owned(), name.to_owned()));
    }

    fn names(&self) -> MutexGuard<'_, HashMap<(String, String), SessionId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
