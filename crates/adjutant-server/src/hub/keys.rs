//! Ends what is open with a key that was revoked or has expired, or whose tenant was archived. One
//! query checks all keys that hold something open, and there is none while nothing is open.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use adjutant_agent::{ErrorCode, Refusal};
use adjutant_store::{KeyEnd, warn_unless_outage};
use tokio::sync::{Notify, watch};
use uuid::Uuid;

use super::{Hub, WatchRegistry, lock};
use crate::Error;

/// Between two checks. What opens and ends within this time is never checked.
const INTERVAL: Duration = Duration::from_secs(2);

/// The keys that hold something open in this process.
#[derive(Debug, Default)]
pub(super) struct HeldKeys {
    held: Mutex<HashMap<Uuid, HeldKey>>,
    first_held: Notify,
}

#[derive(Debug)]
struct HeldKey {
    end: watch::Sender<Option<KeyEnd>>,
    holds: usize,
}

/// Something open, like a wait or a stream, with the key that it was opened with.
#[derive(Debug)]
pub(crate) struct KeyHold(Option<WatchedKey>);

#[derive(Debug)]
struct WatchedKey {
    registry: Arc<WatchRegistry>,
    key: Uuid,
    end: watch::Receiver<Option<KeyEnd>>,
}

impl Hub {
    /// Watches the key of something that stays open; without a key there is nothing to watch.
    pub(crate) fn hold_key(&self, key: Option<Uuid>) -> KeyHold {
        KeyHold(key.map(|key| WatchedKey::new(&self.registry, key)))
    }
}

impl KeyHold {
    /// Returns when the key is no longer valid: the answer to what is open. Cancel safe.
    pub(crate) async fn ended(&self) -> Error {
        let Some(hold) = &self.0 else { return std::future::pending().await };
        match hold.end.clone().wait_for(Option::is_some).await.map(|end| end.clone()) {
            Ok(Some(end)) => refusal(end).into(),
            // The sender lives at least as long as this hold.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }
}

impl Clone for KeyHold {
    fn clone(&self) -> Self {
        Self(self.0.as_ref().map(|hold| WatchedKey::new(&hold.registry, hold.key)))
    }
}

fn refusal(end: KeyEnd) -> Refusal {
    match end {
        KeyEnd::Invalid => {
            Refusal::new(ErrorCode::Unauthenticated, "The key is unknown or no longer valid")
        }
        KeyEnd::TenantArchived(tenant) => {
            Refusal::new(ErrorCode::Forbidden, format!("The tenant {tenant} is archived"))
        }
    }
}

impl WatchedKey {
    fn new(registry: &Arc<WatchRegistry>, key: Uuid) -> Self {
        let mut held = lock(&registry.keys.held);
        if held.is_empty() {
            registry.keys.first_held.notify_one();
        }
        let entry =
            held.entry(key).or_insert_with(|| HeldKey { end: watch::Sender::new(None), holds: 0 });
        entry.holds += 1;
        Self { registry: registry.clone(), key, end: entry.end.subscribe() }
    }
}

impl Drop for WatchedKey {
    fn drop(&mut self) {
        let mut held = lock(&self.registry.keys.held);
        if let Some(entry) = held.get_mut(&self.key) {
            entry.holds -= 1;
            if entry.holds == 0 {
                held.remove(&self.key);
            }
        }
    }
}

pub(super) async fn run(registry: Arc<WatchRegistry>) {
    loop {
        registry.keys.first_held.notified().await;
        loop {
            tokio::time::sleep(INTERVAL).await;
            let keys: Vec<Uuid> = lock(&registry.keys.held).keys().copied().collect();
            if keys.is_empty() {
                break;
            }
            match registry.store.ended_keys(&keys).await {
                Ok(ended) => publish(&registry, ended),
                Err(error) => {
                    warn_unless_outage!(error, "poll failed: cannot check open keys: {error}")
                }
            }
        }
    }
}

fn publish(registry: &WatchRegistry, ended: Vec<(Uuid, KeyEnd)>) {
    let held = lock(&registry.keys.held);
    for (key, end) in ended {
        if let Some(entry) = held.get(&key) {
            entry.end.send_replace(Some(end));
        }
    }
}
