//! Hears notices, on a connection of its own. They save waiting; everything works without them.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use adjutant_agent::WorkerId;
use adjutant_store::{Listener, News, Whom};

use crate::held::lock;
use crate::station::{Station, backoff};

/// What each worker leaves to the one before it: about as long as a claim takes.
const BETWEEN: Duration = Duration::from_millis(4);

pub(crate) async fn listen(station: Arc<Station>) {
    let mut pauses = backoff();
    loop {
        let why = hear(&station).await;
        let was_listening = station.listening.swap(false, Ordering::Relaxed);
        if was_listening {
            pauses = backoff();
            tracing::warn!("notices do not come through any more, polling instead: {why}");
            // The pause that it is in may be long, and the last of them may be lost.
            station.look.notify_one();
        } else {
            tracing::debug!("notices do not come through: {why}");
        }
        tokio::time::sleep(pauses.next().unwrap_or_default()).await;
    }
}

/// Hears until the connection is gone, or until what we say ourselves does not come back: a connection may be half open,
/// or lead through a pooler that passes no notices on.
async fn hear(station: &Arc<Station>) -> String {
    let settings = &station.settings;
    let url = settings.listen_url.as_ref().unwrap_or(&settings.database_url);
    let mut listener = match Listener::connect(url, station.worker.id()).await {
        Ok(listener) => listener,
        Err(error) => return error.to_string(),
    };
    let mut echo = tokio::time::interval(settings.renew_every().max(Duration::from_secs(1)));
    echo.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut unheard = false;
    loop {
        let news = tokio::select! {
            news = listener.next() => news,
            _ = echo.tick() => {
                if unheard {
                    return "our own do not come back".to_owned();
                }
                unheard = true;
                if let Err(error) = station.worker.echo().await {
                    return error.to_string();
                }
                continue;
            }
        };
        match news {
            Ok(News::Queued { whom: Whom::Delayed, .. }) => station.look.notify_one(),
            Ok(News::Queued { whom, lot }) => {
                if whom.concerns(&settings.pool) {
                    wake(station, lot);
                }
            }
            Ok(News::Lost(leases)) => station.held.lost(&leases),
            Ok(News::Watched(watching)) => station.store.is_watched(&watching),
            // Said to those who watch.
            Ok(News::Happened(_) | News::Said(_) | News::Unknown) => {}
            Ok(News::Echo) => {
                unheard = false;
                if !station.listening.swap(true, Ordering::Relaxed) {
                    tracing::info!("notices come through");
                    // Whatever was said before this was not heard.
                    station.look.notify_one();
                }
            }
            Err(error) => return error.to_string(),
        }
    }
}

/// One after the other: what one worker can take, all of them would only fight over.
fn wake(station: &Arc<Station>, lot: u32) {
    let place =
        lock(&station.peers).iter().filter(|peer| rank(lot, **peer) > rank(lot, station.worker.id())).count();
    if place == 0 {
        station.wake.notify_one();
        return;
    }
    let station = station.clone();
    let pause = BETWEEN * u32::try_from(place).unwrap_or(u32::MAX).min(10);
    tokio::spawn(async move {
        tokio::time::sleep(pause).await;
        station.wake.notify_one();
    });
}

/// The same for everyone, and another order for every lot.
fn rank(lot: u32, worker: WorkerId) -> u64 {
    let mut hasher = DefaultHasher::new();
    (lot, worker).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lot_has_one_first_and_not_always_the_same() {
        let workers: Vec<WorkerId> = (0..4).map(|_| WorkerId::new()).collect();
        let first = |lot| workers.iter().max_by_key(|worker| rank(lot, **worker));
        let different: std::collections::HashSet<_> = (0..100).map(first).collect();
        assert_eq!(different.len(), 4);
    }
}
