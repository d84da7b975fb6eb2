//! One query for all that wait: which of their sessions have events that they do not know.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use adjutant_agent::SessionId;
use rand::RngExt;
use tokio::time::Instant;

use super::{Board, lock};

/// At most one query in this time.
const PAUSE: Duration = Duration::from_millis(20);

pub(super) async fn look(board: Arc<Board>) {
    let mut looked_at = Instant::now();
    let mut look_again_at = looked_at + pause(&board);
    loop {
        tokio::select! {
            () = board.news.notified() => {}
            () = tokio::time::sleep_until(look_again_at), if board.is_watched() => lock(&board.due).all = true,
        }
        tokio::time::sleep_until(looked_at + PAUSE).await;
        let due = std::mem::take(&mut *lock(&board.due));
        if due.all {
            look_again_at = Instant::now() + pause(&board);
        }
        let known = known(&board, |session| due.all || due.sessions.contains(session));
        if known.is_empty() {
            continue;
        }
        match board.store.newest_events(&known).await {
            Ok(newest) => publish(&board, &newest),
            Err(error) => {
                tracing::warn!("cannot look for events, trying again: {error}");
                look_again_at = Instant::now() + soon();
                lock(&board.due).all = true;
            }
        }
        looked_at = Instant::now();
    }
}

fn known(board: &Board, is_due: impl Fn(&SessionId) -> bool) -> Vec<(SessionId, i64)> {
    let sessions = lock(&board.sessions);
    let due = sessions.iter().filter(|(session, _)| is_due(session));
    // Less than any number: of those that are new, every answer is news.
    due.map(|(session, watched)| (*session, watched.newest.borrow().unwrap_or(-1))).collect()
}

fn publish(board: &Board, newest: &[(SessionId, i64)]) {
    let sessions = lock(&board.sessions);
    for (session, number) in newest {
        if let Some(watched) = sessions.get(session) {
            watched.newest.send_replace(Some(*number));
        }
    }
}

/// Spread out, so that servers that started together do not ask together.
fn pause(board: &Board) -> Duration {
    if board.listening.load(Ordering::Relaxed) { soon() * 8 } else { soon() }
}

fn soon() -> Duration {
    Duration::from_millis(rand::rng().random_range(500..=1000))
}
