//! What a connection holds for its tenant: one of the tenant's connections, and the memory of the
//! body that its request has. A connection is anonymous until a request on it has a valid key.

use std::future::pending;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::client_address::{Network, is_trusted};
use crate::tenant_counter::{Permit, TenantCounter};
use crate::{Error, Result};

/// When a client that was refused should try again.
pub(super) const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Counts connections by the address of their client. Those of trusted proxies do not count.
#[derive(Debug)]
pub(super) struct Addresses {
    trusted_proxies: Vec<Network>,
    open: TenantCounter,
}

impl Addresses {
    pub(super) fn new(max_per_address: usize, trusted_proxies: Vec<Network>) -> Self {
        Self { trusted_proxies, open: TenantCounter::new(max_per_address) }
    }

    /// A new connection from this address; `None` if it has too many.
    pub(super) fn admit(&self, address: IpAddr) -> Option<ClientConnection> {
        let from_proxy = is_trusted(address, &self.trusted_proxies);
        let counted = if from_proxy { None } else { Some(self.open.take(&network(address)).ok()?) };
        Some(ClientConnection(Arc::new(Connection {
            from_proxy,
            has_tenant: AtomicBool::new(false),
            held: Mutex::default(),
            _address: counted,
        })))
    }
}

/// The part of an address that a client cannot choose: providers give whole /64 networks of IPv6.
fn network(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("{:x}", address.to_bits() >> 64),
    }
}

/// A connection, as the requests on it see it.
#[derive(Debug, Clone)]
pub(crate) struct ClientConnection(Arc<Connection>);

#[derive(Debug)]
struct Connection {
    /// Requests of many tenants share the connections of a proxy, so each belongs to a tenant only
    /// while it has a request.
    from_proxy: bool,
    has_tenant: AtomicBool,
    held: Mutex<Permits>,
    _address: Option<Permit>,
}

#[derive(Debug, Default)]
struct Permits {
    connection: Option<Permit>,
    body: Option<Permit>,
}

impl ClientConnection {
    /// Counts the connection for this tenant from now on; refused if it has too many.
    pub(super) fn belongs_to(&self, tenant: &str, connections: &TenantCounter) -> Result<()> {
        let mut held = self.lock();
        if held.connection.as_ref().is_none_or(|counted| counted.tenant() != tenant) {
            let counted = connections.take(tenant);
            let counted = counted
                .map_err(|exceeded| Error::too_many("connections", exceeded, RETRY_AFTER))?;
            held.connection = Some(counted);
        }
        self.0.has_tenant.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// The tenant of the request.
    pub(super) fn tenant(&self) -> String {
        let held = self.lock();
        held.connection.as_ref().map(|counted| counted.tenant().to_owned()).unwrap_or_default()
    }

    /// Holds the memory of a request's body until the request is answered.
    pub(super) fn hold_body(&self, memory: Permit) {
        self.lock().body = Some(memory);
    }

    pub(super) fn request_ended(&self) {
        let mut held = self.lock();
        held.body = None;
        if self.0.from_proxy {
            held.connection = None;
        }
    }

    /// Returns if no request had a valid key for so long.
    pub(super) async fn anonymous_for(&self, time: Duration) {
        tokio::time::sleep(time).await;
        if self.0.from_proxy || self.0.has_tenant.load(Ordering::Relaxed) {
            pending().await
        }
    }

    fn lock(&self) -> MutexGuard<'_, Permits> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses() -> Addresses {
        Addresses::new(2, vec!["10.0.0.0/8".parse().unwrap()])
    }

    #[test]
    fn an_address_has_a_limited_number_of_connections_and_a_proxy_does_not() {
        let addresses = addresses();
        let admit = |address: &str| addresses.admit(address.parse().unwrap());
        let open = [admit("203.0.113.7").unwrap(), admit("::ffff:203.0.113.7").unwrap()];
        assert!(admit("203.0.113.7").is_none());
        assert!(admit("203.0.113.8").is_some());
        drop(open);
        assert!(admit("203.0.113.7").is_some());
        let _open = [admit("2001:db8::1").unwrap(), admit("2001:db8::2").unwrap()];
        assert!(admit("2001:db8::3").is_none(), "one network");
        assert!(admit("2001:db8:0:1::1").is_some());
        let proxy: Vec<_> = (0..9).map(|_| admit("10.0.0.1").unwrap()).collect();
        assert_eq!(proxy.len(), 9);
    }

    #[test]
    fn a_connection_counts_for_its_last_tenant_and_that_of_a_proxy_during_its_request() {
        let (addresses, connections) = (addresses(), TenantCounter::new(1));
        let direct = addresses.admit("203.0.113.7".parse().unwrap()).unwrap();
        direct.belongs_to("a", &connections).unwrap();
        direct.belongs_to("a", &connections).unwrap();
        direct.request_ended();
        let proxied = addresses.admit("10.0.0.1".parse().unwrap()).unwrap();
        assert!(proxied.belongs_to("a", &connections).is_err());
        direct.belongs_to("b", &connections).unwrap();
        proxied.belongs_to("a", &connections).unwrap();
        proxied.request_ended();
        assert_eq!((direct.tenant(), proxied.tenant()), ("b".to_owned(), String::new()));
        direct.belongs_to("a", &connections).unwrap();
    }
}
