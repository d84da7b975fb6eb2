//! Polls the database every few seconds. Notifications are hints; the poll finds whatever they
//! missed: queued tasks, expired leases, lost leases, due deliveries.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use adjutant_store::{Error, PollResult, warn_unless_outage};
use rand::RngExt;

use crate::fault;
use crate::lease_table::lock;
use crate::subagent_events;
use crate::tool_patience::ToolPatience;
use crate::worker_state::WorkerState;

const TIDY_EVERY: Duration = Duration::from_secs(3600);

const FOLD_EVERY: Duration = Duration::from_secs(5);

pub(crate) async fn run(state: Arc<WorkerState>) {
    let mut tidied_at = Instant::now();
    let mut folded_at = Instant::now();
    let mut tool_patience = ToolPatience::default();
    loop {
        let next = match poll(&state).await {
            Ok(found) => {
                let next = found.next;
                tool_patience.enforce(&state, found.lacks_tools).await;
                act_on(&state, found).await;
                next
            }
            Err(error) => {
                warn_unless_outage!(error, "poll failed: {error}");
                None
            }
        };
        if tidied_at.elapsed() > TIDY_EVERY {
            tidied_at = Instant::now();
            if let Err(error) = state.store.run_maintenance().await {
                warn_unless_outage!(error, "cleanup of old rows failed: {error}");
            }
        }
        if folded_at.elapsed() > FOLD_EVERY {
            folded_at = Instant::now();
            if let Err(error) = state.store.fold_usage().await {
                warn_unless_outage!(error, "fold of usage into its sums failed: {error}");
            }
        }
        tokio::select! {
            () = tokio::time::sleep(pause(&state, next)) => {}
            () = state.poll_now.notified() => {}
        }
    }
}

async fn poll(state: &WorkerState) -> Result<PollResult, Error> {
    let _no_claim_under_way = state.claiming.write().await;
    state.worker.poll(&state.leases.ids(), state.settings.sweep_grace()).await
}

async fn act_on(state: &Arc<WorkerState>, found: PollResult) {
    state.leases.lost(&found.lost);
    *lock(&state.peers) = found.peers;
    state.other_pools.store(found.other_pools, Ordering::Relaxed);
    for stray in found.strays {
        let task = stray.task();
        tracing::info!(
            task.id = %task,
            "task {task} is leased to this worker, but its claim got no answer: releasing it"
        );
        let state = state.clone();
        tokio::spawn(async move {
            state.end(stray).await;
        });
    }
    if state.draining.is_cancelled() {
        return;
    }
    if found.delivers {
        state.store.wake_deliverer();
    }
    if found.deletes {
        state.deletes.notify_one();
    }
    if found.expired {
        sweep(state).await;
    }
    if found.due
        && let Err(error) = state.store.admit_due().await
    {
        warn_unless_outage!(error, "admission of delayed tasks failed: {error}");
    }
    if found.is_outdated
        && let Err(error) = state.worker.update_can().await
    {
        warn_unless_outage!(error, "update of what this worker can run failed: {error}");
    }
    if found.queued || found.expired || found.due || found.is_outdated {
        state.wake.notify_one();
    }
}

async fn sweep(state: &WorkerState) {
    match state.worker.sweep(state.settings.sweep_grace()).await {
        Ok(swept) if swept.is_empty() => {}
        Ok(swept) => {
            fault::point("swept");
            for swept in &swept {
                let (task, what) =
                    (swept.task, if swept.ended { "failed" } else { "is queued again" });
                tracing::warn!(task.id = %task, "task {task} lost its worker and {what}");
            }
            state.store.notify_workers(adjutant_store::NotifyTarget::All);
            let ended: Vec<_> =
                swept.iter().filter(|swept| swept.ended).map(|swept| swept.task).collect();
            if !ended.is_empty() {
                subagent_events::log_ends(&state.store, &ended).await;
            }
            if let Err(error) = state.store.delete_stale_drafts().await {
                warn_unless_outage!(error, "deleting drafts of lost workers failed: {error}");
            }
        }
        Err(error) => warn_unless_outage!(error, "sweep of expired leases failed: {error}"),
    }
}

/// A random pause, so that workers that started together do not poll together, but not longer than
/// until the next delayed task is due.
fn pause(state: &WorkerState, next: Option<Duration>) -> Duration {
    let longest = if state.listening.load(Ordering::Relaxed) { 4000 } else { 1000 };
    let mut random = rand::rng();
    let pause = Duration::from_millis(random.random_range(longest / 2..=longest));
    let next = next.map(|next| next + Duration::from_millis(random.random_range(1..=50)));
    next.map_or(pause, |next| pause.min(next.max(Duration::from_millis(100))))
}
