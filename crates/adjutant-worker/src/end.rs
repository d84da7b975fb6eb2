//! Writes how attempts ended, whatever it takes.

use adjutant_agent::FailureKind;
use adjutant_store::{Ending, Error, Store, Unwritten};

use crate::station::backoff;

/// Tries for as long as the process lives: an outcome that was reached is not thrown away because the database is. What others
/// are busy with is to be written again.
pub(crate) async fn write(line: &Store, endings: &[Ending]) -> Unwritten {
    for pause in backoff() {
        match line.end_some(endings).await {
            Ok(unwritten) => {
                say_what_is_lost(&unwritten);
                return unwritten;
            }
            Err(error) if error.is_passing() => {
                let again_ms = pause.as_millis();
                tracing::warn!("cannot end {} tasks, trying again in {again_ms} ms: {error}", endings.len());
                tokio::time::sleep(pause).await;
            }
            Err(error) => match endings {
                [ending] => return write_refused(ending, &error).await,
                // One of them cannot be stored; the others can.
                several => {
                    let mut unwritten = Unwritten::default();
                    for ending in several {
                        let one = Box::pin(write(line, std::slice::from_ref(ending))).await;
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

pub(crate) fn say_what_is_lost(unwritten: &Unwritten) {
    for task in &unwritten.lost {
        tracing::info!(task.id = %task, "task {task} was cancelled or taken over: its outcome is dropped");
    }
}

/// An outcome that cannot be stored is a failure that says so.
async fn write_refused(ending: &Ending, refusal: &Error) -> Unwritten {
    let task = ending.task();
    tracing::error!(task.id = %task, "the outcome of task {task} cannot be stored: {refusal}");
    let failure =
        ending.or_fail(FailureKind::Internal, format!("Its outcome could not be stored: {refusal}"));
    for pause in backoff() {
        match failure.write().await {
            Ok(()) => return Unwritten::default(),
            Err(Error::LeaseLost(_)) => break,
            Err(error) if error.is_passing() => tokio::time::sleep(pause).await,
            Err(error) => {
                tracing::error!(task.id = %task, "task {task} cannot be ended, its lease runs out: {error}");
                break;
            }
        }
    }
    Unwritten { lost: vec![task], ..Unwritten::default() }
}
