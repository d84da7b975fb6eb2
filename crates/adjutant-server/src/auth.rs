//! Authentication by API key. On a loopback address, as long as there are no keys, every request
//! belongs to the tenant `default`.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use adjutant_agent::{ErrorCode, Grants};
use adjutant_store::Store;
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri};
use chrono::{DateTime, Utc};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::client_address::{Network, Peer, client_address};
use crate::rate_limit::RateLimiter;
use crate::{Caller, CallerKey, Error, Policy, Result, Scope};

/// How long a valid key is cached. A revoked key works for as long, and what it opened meanwhile
/// ends with the next check of open keys (`hub/keys.rs`): both together take less than 5 s.
const KEY_TTL: Duration = Duration::from_millis(2500);

/// How many wrong keys an address may try per second. Each costs a query.
const WRONG_KEYS_PER_S: f64 = 10.0;

/// How many keys from addresses beyond that rate are looked up at a time. The others wait: a valid
/// key among them is delayed, but never refused, and guesses take no connections from other calls.
const SUSPECT_LOOKUPS: usize = 2;

/// How long the absence of keys is cached.
const NO_KEYS_TTL: Duration = Duration::from_secs(2);

/// Longer than any key; a longer one is refused without a query.
const MAX_KEY_BYTES: usize = 256;

/// The most keys that are cached.
const MAX_CACHED: usize = 10_000;

const DEFAULT_TENANT: &str = "default";

/// Finds the caller of a request by its API key.
#[derive(Debug)]
pub(crate) struct Authenticator {
    store: Store,
    policy: Arc<Policy>,
    /// Only this machine can reach the server.
    is_loopback: bool,
    /// By secret. The map hashes with a random key, so that timing reveals nothing about other
    /// keys.
    cache: Mutex<HashMap<String, (Caller, Instant)>>,
    wrong_keys: RateLimiter<IpAddr>,
    suspect_lookups: Semaphore,
    trusted_proxies: Vec<Network>,
    /// Stays true once there was a key.
    has_keys: AtomicBool,
    no_keys_since: Mutex<Option<Instant>>,
}

impl Authenticator {
    pub(crate) fn new(
        store: Store,
        policy: Arc<Policy>,
        address: SocketAddr,
        trusted_proxies: Vec<Network>,
    ) -> Self {
        Self {
            store,
            policy,
            is_loopback: is_loopback(address.ip()),
            cache: Mutex::default(),
            wrong_keys: RateLimiter::new(WRONG_KEYS_PER_S),
            suspect_lookups: Semaphore::new(SUSPECT_LOOKUPS),
            trusted_proxies,
            has_keys: AtomicBool::new(false),
            no_keys_since: Mutex::default(),
        }
    }

    /// The caller of a request.
    pub(crate) async fn caller(&self, parts: &Parts) -> Result<Caller> {
        let address = self.client_address(parts);
        match bearer(&parts.headers)? {
            Some(secret) => {
                let caller = self.authenticate(secret, address).await?;
                Ok(Caller { address, ..caller })
            }
            None if self.is_open().await? => {
                refuse_cross_site(&parts.uri, &parts.headers)?;
                let grants = self.policy.grants_of(DEFAULT_TENANT, Grants::EVERYTHING);
                Ok(Caller { address, grants: Arc::new(grants), ..default_caller() })
            }
            None => Err(unauthenticated("A key is required: Authorization: Bearer adj_...")),
        }
    }

    /// Refuses cross-origin requests while no key protects the server.
    pub(crate) async fn check_origin(&self, uri: &Uri, headers: &HeaderMap) -> Result<()> {
        if self.is_open().await? { refuse_cross_site(uri, headers) } else { Ok(()) }
    }

    /// The address of a request's client, behind proxies that the operator trusts.
    fn client_address(&self, parts: &Parts) -> Option<IpAddr> {
        let Peer(peer) = *parts.extensions.get()?;
        Some(client_address(peer, &parts.headers, &self.trusted_proxies))
    }

    async fn authenticate(&self, secret: &str, address: Option<IpAddr>) -> Result<Caller> {
        let now = Instant::now();
        let is_known = match self.lock().get(secret) {
            Some((caller, until)) if now < *until => return Ok(caller.clone()),
            known => known.is_some(),
        };
        let unknown = || unauthenticated("The key is unknown or no longer valid");
        if !secret.starts_with("adj_") || secret.len() > MAX_KEY_BYTES {
            return Err(unknown());
        }
        let limited = address.and_then(|address| self.wrong_keys.check(&address).err());
        // A key that was valid before is no guess.
        let _turn = match limited.filter(|_| !is_known) {
            // The semaphore is never closed.
            Some(_) => self.suspect_lookups.acquire().await.ok(),
            None => None,
        };
        // Boxed, because every handler has room for what it may await.
        let Some(key) = Box::pin(self.store.key(secret)).await? else {
            self.lock().remove(secret);
            if let Some(limited) = limited {
                return Err(Error::RateLimited(limited));
            }
            // Concurrent guesses may all have passed the check; charging each makes the next ones
            // wait.
            if let Some(address) = address {
                self.wrong_keys.charge(address);
            }
            return Err(unknown());
        };
        let until = now + ttl(key.expires_at, Utc::now());
        let scopes = key.scopes.iter().filter_map(|word| Scope::from_name(word)).collect();
        let grants = key.grants.map(|grants| grants.0).unwrap_or_default();
        let caller = Caller {
            grants: Arc::new(self.policy.grants_of(&key.tenant, grants)),
            tenant: key.tenant,
            scopes,
            key: Some(CallerKey { id: key.id, name: key.name }),
            // Of the request, not of the key.
            address: None,
        };
        let mut cache = self.lock();
        if cache.len() >= MAX_CACHED {
            cache.retain(|_, (_, until)| now < *until);
        }
        cache.insert(secret.to_owned(), (caller.clone(), until));
        Ok(caller)
    }

    /// Whether requests need no key.
    async fn is_open(&self) -> Result<bool> {
        if !self.is_loopback || self.has_keys.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let since = *self.no_keys_since.lock().unwrap_or_else(PoisonError::into_inner);
        if since.is_some_and(|since| since.elapsed() < NO_KEYS_TTL) {
            return Ok(true);
        }
        let has_keys = Box::pin(self.store.has_keys()).await?;
        self.has_keys.store(has_keys, Ordering::Relaxed);
        *self.no_keys_since.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        Ok(!has_keys)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, (Caller, Instant)>> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long a key may be cached: not beyond its expiry.
fn ttl(expires_at: Option<DateTime<Utc>>, now: DateTime<Utc>) -> Duration {
    let left = expires_at.map(|at| at.signed_duration_since(now).to_std().unwrap_or_default());
    left.map_or(KEY_TTL, |left| left.min(KEY_TTL))
}

/// Refuses an address that is not loopback as long as there is no key.
pub(crate) async fn check_address(store: &Store, address: SocketAddr) -> Result<()> {
    if is_loopback(address.ip()) || store.has_keys().await? {
        return Ok(());
    }
    let message = format!(
        "{address} is not a loopback address, and there is no API key yet; create one with `adjutant keys create`, or listen on 127.0.0.1"
    );
    Err(unauthenticated(&message))
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

fn default_caller() -> Caller {
    Caller::new(DEFAULT_TENANT, &[Scope::Delegate, Scope::Read, Scope::Admin])
}

fn unauthenticated(message: &str) -> Error {
    Error::refused(ErrorCode::Unauthenticated, message)
}

/// The secret in the request, if there is one.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let secret = value.to_str().ok().and_then(|value| value.split_once(' '));
    match secret {
        Some((scheme, secret))
            if scheme.eq_ignore_ascii_case("bearer") && values.next().is_none() =>
        {
            Ok(Some(secret.trim()))
        }
        Some(_) | None => Err(unauthenticated("Authorization must be: Bearer adj_...")),
    }
}

/// Refuses requests that a web page of another site sent through a browser on this machine, by our
/// address or by DNS rebinding: the browser sets `Origin`, and `Host` to the name that it resolved.
fn refuse_cross_site(uri: &Uri, headers: &HeaderMap) -> Result<()> {
    if !host(uri, headers).is_some_and(is_local_name) {
        return Err(forbidden(
            "Host: must be 127.0.0.1, [::1] or localhost, as long as there is no key",
        ));
    }
    if is_same_origin(uri, headers) {
        Ok(())
    } else {
        Err(forbidden("Origin: cross-origin requests are refused as long as there is no key"))
    }
}

/// Refuses cross-origin requests, with or without a key.
pub(crate) fn refuse_cross_origin(uri: &Uri, headers: &HeaderMap) -> Result<()> {
    if is_same_origin(uri, headers) {
        Ok(())
    } else {
        Err(forbidden("Origin: cross-origin requests are refused here"))
    }
}

fn host<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    match uri.authority() {
        Some(authority) => Some(authority.as_str()),
        None => headers.get(HOST).and_then(|host| host.to_str().ok()),
    }
}

/// Whether a request comes from no web page, or from one that this server served.
fn is_same_origin(uri: &Uri, headers: &HeaderMap) -> bool {
    let same = |origin: &str| {
        let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        rest.is_some_and(|rest| {
            host(uri, headers).is_some_and(|host| rest.eq_ignore_ascii_case(host))
        })
    };
    headers.get_all(ORIGIN).iter().all(|origin| origin.to_str().is_ok_and(same))
}

fn forbidden(message: &str) -> Error {
    Error::refused(ErrorCode::Forbidden, message)
}

/// Whether a host, with or without a port, is this machine.
fn is_local_name(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port))
            if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            name
        }
        Some(_) | None => host,
    };
    let name = name.strip_suffix('.').unwrap_or(name);
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || address.parse().is_ok_and(is_loopback)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use axum::http::header::HeaderName;

    use super::*;

    fn headers(lines: &[(HeaderName, &str)]) -> HeaderMap {
        lines
            .iter()
            .map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap()))
            .collect()
    }

    #[test]
    fn a_key_is_a_bearer_token_and_nothing_else() {
        let parse = |value: &str| {
            bearer(&headers(&[(AUTHORIZATION, value)])).map(|key| key.map(str::to_owned))
        };
        assert_eq!(parse("Bearer adj_x").unwrap().as_deref(), Some("adj_x"));
        assert_eq!(parse("bearer  adj_x ").unwrap().as_deref(), Some("adj_x"));
        for wrong in ["adj_x", "Basic YTpi", "Bearer", ""] {
            assert_eq!(parse(wrong).unwrap_err().code(), ErrorCode::Unauthenticated, "{wrong:?}");
        }
        let mut two = headers(&[(AUTHORIZATION, "Bearer adj_x")]);
        two.append(AUTHORIZATION, HeaderValue::from_static("Bearer adj_y"));
        assert!(bearer(&two).is_err(), "two keys are refused");
        assert_eq!(bearer(&HeaderMap::new()).unwrap(), None);
    }

    #[test]
    fn a_key_is_not_cached_beyond_its_expiry() {
        let now = Utc::now();
        assert_eq!(ttl(None, now), KEY_TTL);
        assert_eq!(ttl(Some(now + KEY_TTL * 2), now), KEY_TTL);
        assert_eq!(ttl(Some(now + KEY_TTL / 2), now), KEY_TTL / 2);
        assert_eq!(ttl(Some(now - KEY_TTL), now), Duration::ZERO);
    }

    #[test]
    fn without_keys_only_requests_of_this_machine_are_accepted() {
        let code = |lines: &[(HeaderName, &str)]| {
            refuse_cross_site(&Uri::from_static("/v1/sessions"), &headers(lines))
                .map_err(|error| error.code())
        };
        for host in [
            "127.0.0.1:7433",
            "localhost",
            "LOCALHOST:80",
            "localhost.",
            "[::1]:7433",
            "127.8.0.1",
            "[::ffff:127.0.0.1]:1",
        ] {
            assert_eq!(code(&[(HOST, host)]), Ok(()), "{host}");
            assert_eq!(
                code(&[(HOST, host), (ORIGIN, &format!("http://{host}"))]),
                Ok(()),
                "its own page"
            );
            assert_eq!(
                code(&[(HOST, host), (ORIGIN, "http://evil.example")]),
                Err(ErrorCode::Forbidden)
            );
        }
        for host in [
            "evil.example",
            "evil.example:7433",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "10.0.0.1",
            "",
            "0.0.0.0",
            "127.0.0.1:7433:",
        ] {
            assert_eq!(code(&[(HOST, host)]), Err(ErrorCode::Forbidden), "{host:?}");
        }
        assert_eq!(code(&[]), Err(ErrorCode::Forbidden), "no host");
        for origin in
            ["null", "http://localhost:3000", "http://127.0.0.1:7433.evil.example", "file://"]
        {
            let lines = [(HOST, "127.0.0.1:7433"), (ORIGIN, origin)];
            assert_eq!(code(&lines), Err(ErrorCode::Forbidden), "{origin}");
        }
    }

    #[test]
    fn the_host_in_the_request_line_wins_over_the_header() {
        let uri = Uri::from_static("http://evil.example/v1/sessions");
        assert!(refuse_cross_site(&uri, &headers(&[(HOST, "localhost")])).is_err());
    }
}
