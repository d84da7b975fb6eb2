use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::sessions::SessionHeaders;

/// The requests that run in this process, so that `notifications/cancelled`, which is a request of
/// its own, can cancel one of them. A cancel that reaches another server cancels nothing.
#[derive(Debug, Default)]
pub(super) struct RunningRequests(Mutex<HashMap<RequestKey, Vec<CancellationToken>>>);

/// The tenant, the client, and the request id as JSON, in which a string differs from a number.
type RequestKey = (String, Client, String);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Client {
    /// By its `Mcp-Session-Id`.
    Connection(String),
    /// By its `Adjutant-Session`, which other clients may use too.
    Session(String),
}

/// A request that can be cancelled until this is dropped.
pub(super) struct RunningRequest<'a> {
    requests: &'a RunningRequests,
    key: Option<RequestKey>,
    pub(super) token: CancellationToken,
}

impl RunningRequests {
    /// Registers a request. Request ids alone are not unique, so a request without a header that
    /// identifies its client cannot be cancelled.
    pub(super) fn register(
        &self,
        tenant: &str,
        headers: &SessionHeaders,
        id: &Value,
    ) -> RunningRequest<'_> {
        let (key, token) = (request_key(tenant, headers, id), CancellationToken::new());
        if let Some(key) = &key {
            self.lock().entry(key.clone()).or_default().push(token.clone());
        }
        RunningRequest { requests: self, key, token }
    }

    /// Cancels the request with this id. If several clients of one session use the id, the cancel
    /// is ambiguous, and nothing is cancelled.
    pub(super) fn cancel(&self, tenant: &str, headers: &SessionHeaders, id: &Value) {
        let Some(key) = request_key(tenant, headers, id) else { return };
        if let Some([token]) = self.lock().get(&key).map(Vec::as_slice) {
            token.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RequestKey, Vec<CancellationToken>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn request_key(tenant: &str, headers: &SessionHeaders, id: &Value) -> Option<RequestKey> {
    let connection = headers.connection.clone().map(Client::Connection);
    let client = connection.or_else(|| headers.session.clone().map(Client::Session))?;
    Some((tenant.to_owned(), client, id.to_string()))
}

impl Drop for RunningRequest<'_> {
    fn drop(&mut self) {
        let Some(key) = &self.key else { return };
        // Tokens have no identity to compare; cancelling our own marks it for removal.
        self.token.cancel();
        let mut running = self.requests.lock();
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
        let running = RunningRequests::default();
        let (a, b) = (headers(Some("a"), Some("s")), headers(Some("b"), Some("s")));
        let of_a = running.register("t", &a, &json!(1));
        let of_b = running.register("t", &b, &json!(1));
        running.cancel("other", &a, &json!(1));
        running.cancel("t", &a, &json!("1"));
        assert!(!of_a.token.is_cancelled() && !of_b.token.is_cancelled());
        running.cancel("t", &a, &json!(1));
        assert!(of_a.token.is_cancelled() && !of_b.token.is_cancelled());
    }

    #[test]
    fn an_id_that_two_clients_of_a_session_use_cancels_neither() {
        let running = RunningRequests::default();
        let session = headers(None, Some("s"));
        let first = running.register("t", &session, &json!(1));
        let second = running.register("t", &session, &json!(1));
        running.cancel("t", &session, &json!(1));
        assert!(!first.token.is_cancelled() && !second.token.is_cancelled());
        drop(second);
        running.cancel("t", &session, &json!(1));
        assert!(first.token.is_cancelled());
        drop(first);
        assert!(running.lock().is_empty());
        let anonymous = running.register("t", &headers(None, None), &json!(1));
        running.cancel("t", &headers(None, None), &json!(1));
        assert!(!anonymous.token.is_cancelled());
    }
}
