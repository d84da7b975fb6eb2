//! Writes how attempts ended. While one batch is being written the next gathers, so that none waits longer than it must.

use adjutant_agent::FailureKind;
use adjutant_store::{Ending, Error};
use tokio::sync::mpsc;

use crate::fault;
use crate::station::{Ended, Station, backoff};

/// More at once would hold many sessions for long.
pub(crate) const BATCH: usize = 50;

/// Writes a batch, and whatever else is ready to be written, and tells those who wait for it.
pub(crate) async fn end(station: &Station, mut batch: Vec<Ended>, more: &mut mpsc::UnboundedReceiver<Ended>) {
    gather(more, &mut batch).await;
    let (endings, waiting): (Vec<Ending>, Vec<_>) = batch.into_iter().unzip();
    fault::point("before_end");
    write(station, &endings).await;
    fault::point("after_end");
    for ending in &endings {
        station.held.remove(ending.lease());
    }
    station.tell_others();
    for written in waiting {
        // Who was cut off does not wait any more.
        let _ = written.send(());
    }
}

/// Lets those attempts end that are ready to: it takes no time, and a batch costs little more than a single one.
async fn gather(endings: &mut mpsc::UnboundedReceiver<Ended>, batch: &mut Vec<Ended>) {
    while batch.len() < BATCH {
        tokio::task::yield_now().await;
        let before = batch.len();
        while batch.len() < BATCH
            && let Ok(ending) = endings.try_recv()
        {
            batch.push(ending);
        }
        if batch.len() == before {
            return;
        }
    }
}

/// Tries for as long as the process lives: an outcome that was reached is not thrown away because the database is.
async fn write(station: &Station, endings: &[Ending]) {
    for pause in backoff() {
        match station.line.end(endings).await {
            Ok(lost) => {
                for task in lost {
                    tracing::info!(task.id = %task, "task {task} was cancelled or taken over: its outcome is dropped");
                }
                return;
            }
            Err(error) if error.is_passing() => {
                tracing::warn!(
                    "cannot end {} tasks, trying again in {} ms: {error}",
                    endings.len(),
                    pause.as_millis()
                );
                tokio::time::sleep(pause).await;
            }
            Err(error) => match endings {
                [ending] => return write_refused(ending, &error).await,
                // One of them cannot be stored; the others can.
                several => {
                    for ending in several {
                        Box::pin(write(station, std::slice::from_ref(ending))).await;
                    }
                    return;
                }
            },
        }
    }
}

/// An outcome that cannot be stored is a failure that says so.
async fn write_refused(ending: &Ending, refusal: &Error) {
    let task = ending.task();
    tracing::error!(task.id = %task, "the outcome of task {task} cannot be stored: {refusal}");
    let failure =
        ending.or_fail(FailureKind::Internal, format!("Its outcome could not be stored: {refusal}"));
    for pause in backoff() {
        match failure.write().await {
            Ok(()) | Err(Error::LeaseLost(_)) => return,
            Err(error) if error.is_passing() => tokio::time::sleep(pause).await,
            Err(error) => {
                tracing::error!(task.id = %task, "task {task} cannot be ended, its lease runs out: {error}");
                return;
            }
        }
    }
}
