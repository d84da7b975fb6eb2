//! Writes how attempts ended, whatever it takes.

use adjutant_agent::{FailureKind, TaskId};
use adjutant_store::{Ending, Error, Store, Unwritten};

use crate::station::backoff;

/// Tries for as long as the process lives: an outcome that was reached is not thrown away because the database is. Answers
/// what others are busy with.
pub(crate) async fn write(line: &Store, endings: &[Ending]) -> Vec<TaskId> {
    for pause in backoff() {
        match line.end_some(endings).await {
            Ok(unwritten) => return busy(unwritten),
            Err(error) if error.is_passing() => {
                let again_ms = pause.as_millis();
                tracing::warn!("cannot end {} tasks, trying again in {again_ms} ms: {error}", endings.len());
                tokio::time::sleep(pause).await;
            }
            Err(error) => match endings {
                [ending] => {
                    write_refused(ending, &error).await;
                    return Vec::new();
                }
                // One of them cannot be stored; the others can.
                several => {
                    for ending in several {
                        Box::pin(write(line, std::slice::from_ref(ending))).await;
                    }
                    return Vec::new();
                }
            },
        }
    }
    Vec::new()
}

/// Tells of those that came too late; the others are to be written again.
pub(crate) fn busy(unwritten: Unwritten) -> Vec<TaskId> {
    for task in unwritten.lost {
        tracing::info!(task.id = %task, "task {task} was cancelled or taken over: its outcome is dropped");
    }
    unwritten.busy
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
