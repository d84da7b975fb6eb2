//! What tasks do where only the queue is of interest: they play the rehearsal in their configuration.
//!
//! ```json
//! {"rehearsal": {"turns": 3, "turn_ms": 50, "work_ms": 0, "then": "complete", "result_bytes": 0}}
//! ```

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use adjutant_agent::{Answer, FailureKind, Turn};
use adjutant_worker::{End, Handler, Stop, Task, fault};
use serde::Deserialize;

/// The handler of `adjutant work --rehearse`, for the benchmark and tests.
pub struct Rehearsals;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Rehearsal {
    /// Turns to store; those that an earlier attempt stored are not played again.
    turns: i32,
    /// How long each of them takes.
    turn_ms: u64,
    /// How long it then works without a point to hand over.
    work_ms: u64,
    then: Then,
    /// The result is padded to this length.
    result_bytes: usize,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Then {
    #[default]
    Complete,
    Fail,
    Panic,
    /// Never ends, but can be stopped.
    Hang,
    /// Never ends, and keeps its thread.
    Block,
    /// Takes the whole process with it.
    Kill,
}

impl Handler for Rehearsals {
    async fn run(&self, task: &mut Task) -> Result<End, Stop> {
        let started_us =
            SystemTime::now().duration_since(UNIX_EPOCH).map(|since| since.as_micros()).unwrap_or_default();
        let Some(rehearsal) = task.assignment().config.get("rehearsal") else {
            return Ok(failed(
                "This worker was started with --rehearse, and the task's config has no `rehearsal` to play",
            ));
        };
        let rehearsal: Rehearsal = match serde_json::from_value(rehearsal.clone()) {
            Ok(rehearsal) => rehearsal,
            Err(error) => return Ok(failed(&format!("config.rehearsal: {error}"))),
        };
        while task.answers() < rehearsal.turns {
            task.go_on()?;
            pause(rehearsal.turn_ms).await;
            task.checkpoint(&turn(task.answers() + 1)).await?;
        }
        task.go_on()?;
        pause(rehearsal.work_ms).await;
        let said = format!("started_us={started_us} attempt={}", task.attempt());
        Ok(end(&rehearsal, said).await)
    }
}

async fn end(rehearsal: &Rehearsal, said: String) -> End {
    match rehearsal.then {
        Then::Complete => {
            let rest = ".".repeat(rehearsal.result_bytes.saturating_sub(said.len()));
            End::Completed { result: said + &rest, summary: None }
        }
        Then::Fail => failed("It was to fail"),
        #[expect(clippy::panic, reason = "that is what was asked for")]
        Then::Panic => panic!("it was to panic"),
        Then::Hang => std::future::pending().await,
        Then::Block => loop {
            std::thread::park();
        },
        Then::Kill => {
            fault::kill();
            std::future::pending().await
        }
    }
}

/// To a tenth of a millisecond: the benchmark counts on it, and the runtime's own timers are up to 2 ms late.
async fn pause(ms: u64) {
    const LATE: Duration = Duration::from_millis(2);
    let until = Instant::now() + Duration::from_millis(ms);
    if let Some(most) = Duration::from_millis(ms).checked_sub(LATE) {
        tokio::time::sleep(most).await;
        // A failure is a runtime that ends, and we with it.
        let _ = tokio::task::spawn_blocking(move || std::thread::sleep(until - Instant::now())).await;
    }
}

fn turn(number: i32) -> Turn {
    Turn { answer: Answer::of_text(format!("turn {number}")), ..Turn::default() }
}

fn failed(error: &str) -> End {
    End::Failed { failure: FailureKind::Internal, error: error.to_owned(), partial_result: None }
}
