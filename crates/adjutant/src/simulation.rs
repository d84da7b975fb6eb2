//! Simulated tasks, for tests and benchmarks of the queue: their config sets how long they run and
//! how they end.
//!
//! ```json
//! {"simulation": {"turns": 3, "turn_ms": 50, "work_ms": 0, "then": "complete", "result_bytes": 0}}
//! ```

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use adjutant_agent::{Answer, FailureKind, Turn};
use adjutant_worker::{End, Handler, Stop, Task, fault};
use serde::Deserialize;

/// The handler of `adjutant work --simulate`.
pub struct SimulatedTasks;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Simulation {
    /// Turns to store. Turns of an earlier attempt count.
    turns: i32,
    /// The length of each turn.
    turn_ms: u64,
    /// How long the task then runs without a turn, and so without a chance to hand it over.
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
    /// Never ends, and blocks its thread.
    Block,
    /// Kills the whole process.
    Kill,
}

impl Handler for SimulatedTasks {
    async fn run(&self, task: &mut Task) -> Result<End, Stop> {
        let started_us = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map(|since| since.as_micros())
            .unwrap_or_default();
        let Some(simulation) = task.assignment().config.get("simulation") else {
            return Ok(failed(
                "This worker runs simulated tasks (--simulate), but the task's config has no `simulation`",
            ));
        };
        let simulation: Simulation = match serde_json::from_value(simulation.clone()) {
            Ok(simulation) => simulation,
            Err(error) => return Ok(failed(&format!("config.simulation: {error}"))),
        };
        while task.answers() < simulation.turns {
            task.check_may_continue()?;
            pause(simulation.turn_ms).await;
            task.checkpoint(&turn(task.answers() + 1)).await?;
        }
        task.check_may_continue()?;
        pause(simulation.work_ms).await;
        let text = format!("started_us={started_us} attempt={}", task.attempt());
        Ok(end(&simulation, text).await)
    }
}

async fn end(simulation: &Simulation, text: String) -> End {
    match simulation.then {
        Then::Complete => {
            let rest = ".".repeat(simulation.result_bytes.saturating_sub(text.len()));
            End::Completed { result: text + &rest, summary: None }
        }
        Then::Fail => failed("Simulated failure"),
        #[expect(clippy::panic, reason = "the simulation requests a panic")]
        Then::Panic => panic!("simulated panic"),
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

/// Exact to a tenth of a millisecond, for the benchmark. The runtime's timers are up to 2 ms late.
async fn pause(ms: u64) {
    const TIMER_DELAY: Duration = Duration::from_millis(2);
    let until = Instant::now() + Duration::from_millis(ms);
    if let Some(coarse) = Duration::from_millis(ms).checked_sub(TIMER_DELAY) {
        tokio::time::sleep(coarse).await;
        // Fails only when the runtime shuts down.
        let _ =
            tokio::task::spawn_blocking(move || std::thread::sleep(until - Instant::now())).await;
    }
}

fn turn(number: i32) -> Turn {
    Turn { answer: Answer::of_text(format!("turn {number}")), ..Turn::default() }
}

fn failed(error: &str) -> End {
    End::Failed { failure: FailureKind::Internal, error: error.to_owned(), partial_result: None }
}
