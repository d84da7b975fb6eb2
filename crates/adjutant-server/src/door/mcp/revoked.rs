use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::sessions::Whereabouts;

/// Requests that are under way here, so that a client that takes one back by a message of its own, as older revisions do, ends its
/// wait. One that asks another server ends nothing: the wait there ends by itself soon.
#[derive(Debug, Default)]
pub(super) struct Revoked(Mutex<HashMap<(String, String), CancellationToken>>);

/// A request that can be taken back until this is dropped.
pub(super) struct UnderWay<'a> {
    revoked: &'a Revoked,
    key: Option<(String, String)>,
    pub(super) token: CancellationToken,
}

impl Revoked {
    /// Only a client that has an id can take requests back: ids of requests alone are not unique.
    pub(super) fn under_way(&self, whereabouts: &Whereabouts, id: &Value) -> UnderWay<'_> {
        let (key, token) = (key(whereabouts, id), CancellationToken::new());
        if let Some(key) = &key {
            self.lock().insert(key.clone(), token.clone());
        }
        UnderWay { revoked: self, key, token }
    }

    pub(super) fn revoke(&self, whereabouts: &Whereabouts, id: &Value) {
        if let Some(token) = key(whereabouts, id).and_then(|key| self.lock().get(&key).cloned()) {
            token.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(String, String), CancellationToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ids that are texts differ from numbers in their JSON.
fn key(whereabouts: &Whereabouts, id: &Value) -> Option<(String, String)> {
    whereabouts.connection.clone().map(|connection| (connection, id.to_string()))
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if let Some(key) = &self.key {
            self.revoked.lock().remove(key);
        }
    }
}
