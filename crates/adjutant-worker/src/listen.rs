//! Hears notices, on a connection of its own. They save waiting; everything works without them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use adjutant_store::{Listener, News, Whom};

use crate::station::{Station, backoff};

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
async fn hear(station: &Station) -> String {
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
            Ok(News::Queued(Whom::Delayed)) => station.look.notify_one(),
            Ok(News::Queued(whom)) => {
                if whom.concerns(&settings.pool) {
                    station.wake.notify_one();
                }
            }
            Ok(News::Lost(leases)) => station.held.lost(&leases),
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
