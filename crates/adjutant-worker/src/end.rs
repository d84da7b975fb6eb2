//! Writes how attempts ended, and retries for as long as it takes.

use adjutant_agent::FailureKind;
use adjutant_store::{Ending, Error, Store, Unwritten, warn_unless_outage};

use crate::worker_state::backoff;

/// Retries while the database is unavailable, for as long as the process lives: an outcome that was
/// reached is not thrown away. Endings of busy tasks are returned, to be written again.
pub(crate) async fn write(connection: &Store, endings: &[Ending]) -> Unwritten {
    for pause in backoff() {
        match connection.end_some(endings).await {
            Ok(unwritten) => {
                log_lost(&unwritten);
                return unwritten;
            }
            Err(error) if error.is_transient() => {
                let retry_ms = pause.as_millis();
                warn_unless_outage!(
                    error,
                    "storing the ends of {} tasks failed, retrying in {retry_ms} ms: {error}",
                    endings.len()
                );
                tokio::time::sleep(pause).await;
            }
            Err(error) => match endings {
                [ending] => return write_rejected(ending, &error).await,
                // The database rejects one of them; the others are written one by one.
                several => {
                    let mut unwritten = Unwritten::default();
                    for ending in several {
                        let one = Box::pin(write(connection, std::slice::from_ref(ending))).await;
                        unwritten.lost.extend(one.lost);
                        unwritten.busy.extend(one.busy);
                    }
                    return unwritten;
                }
            },
        }
    }
    Unwritten::default()
}

pub(crate) fn log_lost(unwritten: &Unwritten) {
    for task in &unwritten.lost {
        tracing::info!(
            task.id = %task,
            "task {task} was cancelled or taken over: its outcome is dropped"
        );
    }
}

/// Stores a failure in place of an outcome that the database rejects.
async fn write_rejected(ending: &Ending, rejection: &Error) -> Unwritten {
    let task = ending.task();
    tracing::error!(task.id = %task, "the outcome of task {task} cannot be stored: {rejection}");
    let failure = ending
        .or_fail(FailureKind::Internal, format!("Its outcome could not be stored: {rejection}"));
    for pause in backoff() {
        match failure.write().await {
            Ok(()) => return Unwritten::default(),
            Err(Error::LeaseLost(_)) => break,
            Err(error) if error.is_transient() => tokio::time::sleep(pause).await,
            Err(error) => {
                tracing::error!(
                    task.id = %task,
                    "task {task} cannot be ended, its lease will expire: {error}"
                );
                break;
            }
        }
    }
    Unwritten { lost: vec![task], ..Unwritten::default() }
}
