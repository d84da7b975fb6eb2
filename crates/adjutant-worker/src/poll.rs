//! Looks around every few seconds. Notices are hints, this is the truth: whatever they did not tell is found here.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use adjutant_store::{Error, Look};
use rand::RngExt;

use crate::fault;
use crate::held::lock;
use crate::station::Station;
use crate::tell_ends;

const TIDY_EVERY: Duration = Duration::from_secs(3600);

pub(crate) async fn poll(station: Arc<Station>) {
    let mut tidied_at = Instant::now();
    loop {
        let next = match look(&station).await {
            Ok(look) => {
                let next = look.next;
                act_on(&station, look).await;
                next
            }
            Err(error) => {
                tracing::warn!("cannot look around: {error}");
                None
            }
        };
        if tidied_at.elapsed() > TIDY_EVERY {
            tidied_at = Instant::now();
            if let Err(error) = station.store.tidy().await {
                tracing::warn!("cannot tidy up: {error}");
            }
        }
        tokio::select! {
            () = tokio::time::sleep(pause(&station, next)) => {}
            () = station.look.notified() => {}
        }
    }
}

async fn look(station: &Station) -> Result<Look, Error> {
    let _known = station.claiming.write().await;
    station.worker.look(&station.held.leases(), station.settings.sweep_grace()).await
}

async fn act_on(station: &Arc<Station>, look: Look) {
    station.held.lost(&look.lost);
    *lock(&station.peers) = look.peers;
    station.other_pools.store(look.other_pools, Ordering::Relaxed);
    for stray in look.strays {
        tracing::info!(task.id = %stray.task(), "task {} was claimed without our knowing: it is given back", stray.task());
        let station = station.clone();
        tokio::spawn(async move {
            station.end(stray).await;
        });
    }
    if station.draining.is_cancelled() {
        return;
    }
    if look.delivers {
        station.store.wake_deliverer();
    }
    if look.expired {
        sweep(station).await;
    }
    if look.due
        && let Err(error) = station.store.let_in_due().await
    {
        tracing::warn!("cannot let in delayed tasks: {error}");
    }
    if look.queued || look.expired || look.due {
        station.wake.notify_one();
    }
}

async fn sweep(station: &Station) {
    match station.worker.sweep(station.settings.sweep_grace()).await {
        Ok(swept) if swept.is_empty() => {}
        Ok(swept) => {
            fault::point("swept");
            for swept in &swept {
                let (task, what) = (swept.task, if swept.ended { "has failed" } else { "is queued again" });
                tracing::warn!(task.id = %task, "task {task} lost its worker and {what}");
            }
            station.store.tell(adjutant_store::Whom::All);
            let ended: Vec<_> = swept.iter().filter(|swept| swept.ended).map(|swept| swept.task).collect();
            if !ended.is_empty() {
                tell_ends::tell_ends(&station.store, &ended).await;
            }
            if let Err(error) = station.store.forget_drafts().await {
                tracing::warn!("cannot forget what lost workers left: {error}");
            }
        }
        Err(error) => tracing::warn!("cannot sweep: {error}"),
    }
}

/// Spread out, so that workers that started together do not ask together; and not later than the next thing that is due.
fn pause(station: &Station, next: Option<Duration>) -> Duration {
    let longest = if station.listening.load(Ordering::Relaxed) { 4000 } else { 1000 };
    let mut random = rand::rng();
    let pause = Duration::from_millis(random.random_range(longest / 2..=longest));
    let next = next.map(|next| next + Duration::from_millis(random.random_range(1..=50)));
    next.map_or(pause, |next| pause.min(next.max(Duration::from_millis(100))))
}
