use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use adjutant_agent::SessionId;

/// The most sessions that are cached. Beyond it the cache is cleared, which costs one query for
/// each session that is used again.
const MAX_CACHED: usize = 50_000;

/// Caches the ids of sessions by tenant and name, which saves a round trip. An id is never reused,
/// so a stale entry finds no session, and the name is looked up again.
#[derive(Debug, Default)]
pub(crate) struct SessionCache(Mutex<HashMap<(String, String), SessionId>>);

impl SessionCache {
    pub(crate) fn get(&self, tenant: &str, name: &str) -> Option<SessionId> {
        self.lock().get(&(tenant.to_owned(), name.to_owned())).copied()
    }

    pub(crate) fn insert(&self, tenant: &str, name: &str, id: SessionId) {
        let mut ids = self.lock();
        if ids.len() >= MAX_CACHED {
            ids.clear();
        }
        ids.insert((tenant.to_owned(), name.to_owned()), id);
    }

    pub(crate) fn remove(&self, tenant: &str, name: &str) {
        self.lock().remove(&(tenant.to_owned(), name.to_owned()));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(String, String), SessionId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
