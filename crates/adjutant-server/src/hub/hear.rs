//! Hears what others tell, on a connection of its own, and tells them that somebody watches here.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use adjutant_store::{Listener, News, Watching};
use backon::{BackoffBuilder, ExponentialBuilder};

use super::{Board, lock};

/// Those who watch say so as often; who heard it believes it for a little longer than twice.
const SAY_EVERY: Duration = Duration::from_secs(2);

pub(super) async fn hear(board: Arc<Board>) {
    let backoff = || {
        let pauses = ExponentialBuilder::default().with_min_delay(Duration::from_millis(50));
        pauses.with_max_delay(SAY_EVERY).with_jitter().without_max_times().build()
    };
    let mut pauses = backoff();
    loop {
        let why = hear_until_gone(&board).await;
        if board.listening.swap(false, Ordering::Relaxed) {
            pauses = backoff();
            tracing::warn!("notices do not come through any more, polling instead: {why}");
            // What was told last may be lost.
            board.all_is_due();
        } else {
            tracing::debug!("notices do not come through: {why}");
        }
        tokio::time::sleep(pauses.next().unwrap_or_default()).await;
    }
}

/// Returns when the connection is gone, or when our own words do not come back: it may be half open, or lead through a
/// pooler that passes no notices on.
async fn hear_until_gone(board: &Board) -> String {
    let mut listener = match Listener::connect_watching(&board.listen_url).await {
        Ok(listener) => listener,
        Err(error) => return error.to_string(),
    };
    let mut tick = tokio::time::interval(SAY_EVERY);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut unheard = false;
    loop {
        let news = tokio::select! {
            news = listener.next() => news,
            _ = tick.tick() => {
                if !board.is_watched() && lock(&board.texts).is_empty() {
                    // Nobody asks whether it still hears, so it does not know.
                    board.listening.store(false, Ordering::Relaxed);
                    unheard = false;
                    continue;
                }
                if unheard {
                    return "our own do not come back".to_owned();
                }
                unheard = true;
                if let Err(error) = say(board).await {
                    return error.to_string();
                }
                continue;
            }
            () = board.came.notified() => {
                tick.reset();
                unheard = true;
                if let Err(error) = say(board).await {
                    return error.to_string();
                }
                continue;
            }
        };
        match news {
            Ok(News::Happened(Some(sessions))) => board.is_due(sessions),
            Ok(News::Happened(None)) => board.all_is_due(),
            Ok(News::Said(text)) => board.said(text),
            Ok(News::Watched(watching)) => {
                // Spawns and cancels of this process are news to those who watch elsewhere.
                board.store.is_watched(&watching);
                if watching.by == board.id {
                    unheard = false;
                    if !board.listening.swap(true, Ordering::Relaxed) {
                        tracing::info!("notices come through");
                        // Whatever was told before this was not heard.
                        board.all_is_due();
                    }
                }
            }
            Ok(News::Queued { .. } | News::Lost(_) | News::Echo | News::Unknown) => {}
            Err(error) => return error.to_string(),
        }
    }
}

async fn say(board: &Board) -> adjutant_store::Result<()> {
    let texts = lock(&board.texts).keys().copied().collect();
    board.store.watch(&Watching { by: board.id, texts }).await
}
