//! Who calls. A key says it; where there is no key yet and nobody else can reach us, everybody is the tenant `default`.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use adjutant_agent::ErrorCode;
use adjutant_store::Store;
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri};
use chrono::{DateTime, Utc};
use tokio::time::Instant;

use crate::rates::Rate;
use crate::{Caller, Error, Result, Scope};

/// How long a key that was good is good without being looked up: as long does one that was taken back.
const TRUSTED: Duration = Duration::from_secs(5);

/// How many wrong keys an address may try each second: each is looked up, and a guess should be a slow thing.
const WRONG_PER_S: f64 = 10.0;

/// How long there being no keys is believed.
const OPEN: Duration = Duration::from_secs(2);

/// Longer than any key: what is longer is not looked up.
const MAX_KEY: usize = 256;

/// The most keys that are remembered.
const MANY: usize = 10_000;

const DEFAULT_TENANT: &str = "default";

/// Where a request comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// Knows callers by their keys.
#[derive(Debug)]
pub(crate) struct Keys {
    store: Store,
    /// Nobody but this machine can reach us.
    loopback: bool,
    /// Found by a keyed hash of the secret, so that the time it takes tells nothing about others.
    trusted: Mutex<HashMap<String, (Caller, Instant)>>,
    wrong: Rate<Peer>,
    /// Once there are keys, there is no way back to being open.
    any: AtomicBool,
    looked: Mutex<Option<Instant>>,
}

impl Keys {
    pub(crate) fn new(store: Store, address: SocketAddr) -> Self {
        Self {
            store,
            loopback: is_loopback(address.ip()),
            trusted: Mutex::default(),
            wrong: Rate::new(WRONG_PER_S),
            any: AtomicBool::new(false),
            looked: Mutex::default(),
        }
    }

    /// Who sent a request.
    pub(crate) async fn caller(&self, parts: &Parts) -> Result<Caller> {
        match bearer(&parts.headers)? {
            Some(secret) => self.owner(secret, parts.extensions.get().copied()).await,
            None if self.is_open().await? => {
                refuse_pages(&parts.uri, &parts.headers)?;
                Ok(everybody())
            }
            None => Err(unauthenticated("A key is required: Authorization: Bearer adj_...")),
        }
    }

    /// Refuses web pages of others, where no key does.
    pub(crate) async fn visitor(&self, uri: &Uri, headers: &HeaderMap) -> Result<()> {
        if self.is_open().await? { refuse_pages(uri, headers) } else { Ok(()) }
    }

    async fn owner(&self, secret: &str, peer: Option<Peer>) -> Result<Caller> {
        let now = Instant::now();
        let was_good = match self.lock().get(secret) {
            Some((caller, until)) if now < *until => return Ok(caller.clone()),
            known => known.is_some(),
        };
        let unknown = || unauthenticated("This key is not known, or no longer valid");
        if !secret.starts_with("adj_") || secret.len() > MAX_KEY {
            return Err(unknown());
        }
        // Whoever has a key is not kept out by others who guess from the same address, once it is known.
        if let Some(peer) = peer.filter(|_| !was_good) {
            self.wrong.check(&peer).map_err(Error::TooOften)?;
        }
        let Some(key) = self.store.key(secret).await? else {
            self.lock().remove(secret);
            // Many guesses at the same moment may all have been let through: the next ones wait the longer.
            if let Some(peer) = peer {
                self.wrong.charge(peer);
            }
            return Err(unknown());
        };
        let until = now + trusted_for(key.expires_at, Utc::now());
        let scopes = key.scopes.iter().filter_map(|word| Scope::named(word)).collect();
        let caller = Caller { tenant: key.tenant, scopes };
        let mut trusted = self.lock();
        if trusted.len() >= MANY {
            trusted.retain(|_, (_, until)| now < *until);
        }
        trusted.insert(secret.to_owned(), (caller.clone(), until));
        Ok(caller)
    }

    /// Whether everybody who can reach us is let in.
    async fn is_open(&self) -> Result<bool> {
        if !self.loopback || self.any.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let looked = *self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if looked.is_some_and(|looked| looked.elapsed() < OPEN) {
            return Ok(true);
        }
        let any = self.store.has_keys().await?;
        self.any.store(any, Ordering::Relaxed);
        *self.looked.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        Ok(!any)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, (Caller, Instant)>> {
        self.trusted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Not beyond its own end.
fn trusted_for(expires_at: Option<DateTime<Utc>>, now: DateTime<Utc>) -> Duration {
    let left = expires_at.map(|at| at.signed_duration_since(now).to_std().unwrap_or_default());
    left.map_or(TRUSTED, |left| left.min(TRUSTED))
}

/// Refuses an address that others can reach, as long as nobody has a key.
pub(crate) async fn check_address(store: &Store, address: SocketAddr) -> Result<()> {
    if is_loopback(address.ip()) || store.has_keys().await? {
        return Ok(());
    }
    let message = format!(
        "others can reach {address}, and there is no key yet; make one with `adjutant keys create`, or listen on 127.0.0.1"
    );
    Err(unauthenticated(&message))
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

fn everybody() -> Caller {
    Caller { tenant: DEFAULT_TENANT.to_owned(), scopes: vec![Scope::Delegate, Scope::Read, Scope::Admin] }
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
        Some((scheme, secret)) if scheme.eq_ignore_ascii_case("bearer") && values.next().is_none() => {
            Ok(Some(secret.trim()))
        }
        Some(_) | None => Err(unauthenticated("Authorization must be: Bearer adj_...")),
    }
}

/// A page of the web that somebody here looks at can send requests to this machine, by our address or by a name of its own
/// that leads here: it gives itself away by what its browser says.
fn refuse_pages(uri: &Uri, headers: &HeaderMap) -> Result<()> {
    if !host(uri, headers).is_some_and(is_local_name) {
        return Err(forbidden("Host: must be 127.0.0.1, [::1] or localhost, as long as there is no key"));
    }
    if is_own_page(uri, headers) {
        Ok(())
    } else {
        Err(forbidden("Origin: web pages of others are not let in, as long as there is no key"))
    }
}

/// For those who let no page of others in, whatever key it has.
pub(crate) fn refuse_foreign_pages(uri: &Uri, headers: &HeaderMap) -> Result<()> {
    if is_own_page(uri, headers) {
        Ok(())
    } else {
        Err(forbidden("Origin: web pages of others are not let in here"))
    }
}

fn host<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    match uri.authority() {
        Some(authority) => Some(authority.as_str()),
        None => headers.get(HOST).and_then(|host| host.to_str().ok()),
    }
}

/// Whether a request comes from no page at all, or from one that we served.
fn is_own_page(uri: &Uri, headers: &HeaderMap) -> bool {
    let same = |origin: &str| {
        let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        rest.is_some_and(|rest| host(uri, headers).is_some_and(|host| rest.eq_ignore_ascii_case(host)))
    };
    headers.get_all(ORIGIN).iter().all(|origin| origin.to_str().is_ok_and(same))
}

fn forbidden(message: &str) -> Error {
    Error::refused(ErrorCode::Forbidden, message)
}

/// With or without a port.
fn is_local_name(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
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
        lines.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap())).collect()
    }

    #[test]
    fn a_key_is_a_bearer_token_and_nothing_else() {
        let read =
            |value: &str| bearer(&headers(&[(AUTHORIZATION, value)])).map(|key| key.map(str::to_owned));
        assert_eq!(read("Bearer adj_x").unwrap().as_deref(), Some("adj_x"));
        assert_eq!(read("bearer  adj_x ").unwrap().as_deref(), Some("adj_x"));
        for wrong in ["adj_x", "Basic YTpi", "Bearer", ""] {
            assert_eq!(read(wrong).unwrap_err().code(), ErrorCode::Unauthenticated, "{wrong:?}");
        }
        let mut two = headers(&[(AUTHORIZATION, "Bearer adj_x")]);
        two.append(AUTHORIZATION, HeaderValue::from_static("Bearer adj_y"));
        assert!(bearer(&two).is_err(), "two keys are none");
        assert_eq!(bearer(&HeaderMap::new()).unwrap(), None);
    }

    #[test]
    fn a_key_is_not_trusted_beyond_its_end() {
        let now = Utc::now();
        assert_eq!(trusted_for(None, now), TRUSTED);
        assert_eq!(trusted_for(Some(now + TRUSTED * 2), now), TRUSTED);
        assert_eq!(trusted_for(Some(now + TRUSTED / 2), now), TRUSTED / 2);
        assert_eq!(trusted_for(Some(now - TRUSTED), now), Duration::ZERO);
    }

    #[test]
    fn without_keys_only_this_machine_is_let_in() {
        let code = |lines: &[(HeaderName, &str)]| {
            refuse_pages(&Uri::from_static("/v1/sessions"), &headers(lines)).map_err(|error| error.code())
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
            assert_eq!(code(&[(HOST, host), (ORIGIN, &format!("http://{host}"))]), Ok(()), "its own page");
            assert_eq!(code(&[(HOST, host), (ORIGIN, "http://evil.example")]), Err(ErrorCode::Forbidden));
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
        for origin in ["null", "http://localhost:3000", "http://127.0.0.1:7433.evil.example", "file://"] {
            let lines = [(HOST, "127.0.0.1:7433"), (ORIGIN, origin)];
            assert_eq!(code(&lines), Err(ErrorCode::Forbidden), "{origin}");
        }
    }

    #[test]
    fn the_host_in_the_request_line_counts_before_the_header() {
        let uri = Uri::from_static("http://evil.example/v1/sessions");
        assert!(refuse_pages(&uri, &headers(&[(HOST, "localhost")])).is_err());
    }
}
