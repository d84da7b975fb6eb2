use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::sessions::SessionHeaders;

/// The requests that run here, so that `notifications/cancelled`, a message of its own, can cancel one of them. A cancel that
/// reaches another server cancels nothing.
#[derive(Debug, Default)]
pub(super) struct Revoked(Mutex<HashMap<Key, Vec<CancellationToken>>>);

/// The tenant, its connection or session, and the id of the request as JSON, in which a string differs from a number.
type Key = (String, Client, String);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Client {
    /// By its `Mcp-Session-Id`.
    Connection(String),
    /// By its `Adjutant-Session`, which other clients may have too.
    Session(String),
}

/// A request that can be cancelled until this is dropped.
pub(super) struct UnderWay<'a> {
    revoked: &'a Revoked,
    key: Option<Key>,
    pub(super) token: CancellationToken,
}

impl Revoked {
    /// Request ids alone are not unique, so a request without a header that names its client cannot be cancelled.
    pub(super) fn under_way(
        &self,
        tenant: &str,
        headers: &SessionHeaders,
        id: &Value,
    ) -> UnderWay<'_> {
        let (key, token) = (key(tenant, headers, id), CancellationToken::new());
        if let Some(key) = &key {
            self.lock().entry(key.clone()).or_default().push(token.clone());
        }
        UnderWay { revoked: self, key, token }
    }

    /// Cancels the request of this id. If several clients of one session use the id, nobody knows which of them is meant, and
    /// nothing is cancelled.
    pub(super) fn revoke(&self, tenant: &str, headers: &SessionHeaders, id: &Value) {
        let Some(key) = key(tenant, headers, id) else { return };
        if let Some([token]) = self.lock().get(&key).map(Vec::as_slice) {
            token.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Vec<CancellationToken>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(tenant: &str, headers: &SessionHeaders, id: &Value) -> Option<Key> {
    let connection = headers.connection.clone().map(Client::Connection);
    let client = connection.or_else(|| headers.session.clone().map(Client::Session))?;
    Some((tenant.to_owned(), client, id.to_string()))
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let Some(key) = &self.key else { return };
        // Its own entry: a token is cancelled by its drop at the latest.
        self.token.cancel();
        let mut running = self.revoked.lock();
        if let Some(tokens) = running.get_mut(key) {
            tokens.retain(|token| !token.is_cancelled());
            if tokens.is_empty() {
                running.remove(key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn headers(connection: Option<&str>, session: Option<&str>) -> SessionHeaders {
        SessionHeaders {
            session: session.map(str::to_owned),
            connection: connection.map(str::to_owned),
        }
    }

    #[test]
    fn a_cancel_reaches_the_request_of_its_own_client_and_no_other() {
        let revoked = Revoked::default();
        let (a, b) = (headers(Some("a"), Some("s")), headers(Some("b"), Some("s")));
        let of_a = revoked.under_way("t", &a, &json!(1));
        let of_b = revoked.under_way("t", &b, &json!(1));
        revoked.revoke("other", &a, &json!(1));
        revoked.revoke("t", &a, &json!("1"));
        assert!(!of_a.token.is_cancelled() && !of_b.token.is_cancelled());
        revoked.revoke("t", &a, &json!(1));
        assert!(of_a.token.is_cancelled() && !of_b.token.is_cancelled());
    }

    #[test]
    fn an_id_that_two_clients_of_a_session_use_cancels_neither() {
        let revoked = Revoked::default();
        let session = headers(None, Some("s"));
        let first = revoked.under_way("t", &session, &json!(1));
        let second = revoked.under_way("t", &session, &json!(1));
        revoked.revoke("t", &session, &json!(1));
        assert!(!first.token.is_cancelled() && !second.token.is_cancelled());
        drop(second);
        revoked.revoke("t", &session, &json!(1));
        assert!(first.token.is_cancelled());
        drop(first);
        assert!(revoked.lock().is_empty());
        let nobody = revoked.under_way("t", &headers(None, None), &json!(1));
        revoked.revoke("t", &headers(None, None), &json!(1));
        assert!(!nobody.token.is_cancelled());
    }
}
