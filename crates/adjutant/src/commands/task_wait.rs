//! Waits for tasks, across restarts of the server.

use std::collections::HashMap;
use std::convert::Infallible;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Answer, CallError, Client, LONGEST_WAIT};
use crate::commands::task_text;
use crate::exit::Exit;
use crate::output::{Spinner, note};
use crate::signals::{Interrupted, Signals};
use crate::table::{items, text};

/// The pause between two progress updates, unless the server suggests a longer one.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);

/// The pause between two waits. A server that is stopping answers at once.
const ROUND_PAUSE: Duration = Duration::from_millis(100);

/// A wait for tasks of a session.
pub struct TaskWait<'a> {
    pub client: &'a Client,
    pub session: &'a str,
    pub deadline: Option<Instant>,
}

/// How a wait ended.
#[derive(Debug)]
pub enum WaitOutcome {
    /// The answer lists the tasks that ended; none if there was nothing to wait for.
    Ended(Answer),
    /// The last answer, if there was one, lists the tasks that ended in time.
    TimedOut(Option<Answer>),
    /// A signal came first.
    Interrupted(Interrupted),
}

/// Which tasks must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitMode {
    Any,
    All,
}

impl WaitMode {
    fn as_str(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::All => "all",
        }
    }
}

impl TaskWait<'_> {
    /// Waits for tasks, or without ids for any active task, and shows their progress on a terminal.
    pub async fn wait(&self, ids: &[String], mode: WaitMode) -> anyhow::Result<WaitOutcome> {
        let bar = Spinner::start("waiting")?;
        let mut signals = Signals::listen()?;
        let waited = tokio::select! {
            waited = self.rounds(ids, mode) => waited?,
            never = self.show(ids, &bar) => match never {},
            name = signals.next() => WaitOutcome::Interrupted(Interrupted(name)),
        };
        bar.clear();
        Ok(waited)
    }

    /// Repeats the call: the server limits the length of one wait, and answers early when it is
    /// stopping.
    async fn rounds(&self, ids: &[String], mode: WaitMode) -> Result<WaitOutcome, CallError> {
        let mut earlier = Vec::new();
        loop {
            let remaining = self.remaining();
            let round = remaining.map_or(LONGEST_WAIT, |remaining| remaining.min(LONGEST_WAIT));
            let mut call =
                json!({"action": "wait", "mode": mode.as_str(), "timeout_s": round.as_secs_f64()});
            if !ids.is_empty() {
                call["task_ids"] = json!(ids);
            }
            let answer =
                self.client.with_retries(async || self.client.subagent(self.session, &call).await);
            let answer = match remaining {
                // Do not wait longer for an unreachable server than for the task.
                Some(remaining) => {
                    match tokio::time::timeout(remaining + PROGRESS_INTERVAL, answer).await {
                        Ok(answer) => answer?,
                        Err(_) => return Ok(WaitOutcome::TimedOut(None)),
                    }
                }
                None => answer.await?,
            };
            if answer.value.get("timed_out").and_then(Value::as_bool) != Some(true) {
                return Ok(WaitOutcome::Ended(with_earlier(answer, earlier)));
            }
            if self.remaining().is_some_and(|remaining| remaining <= ROUND_PAUSE) {
                return Ok(WaitOutcome::TimedOut(Some(with_earlier(answer, earlier))));
            }
            if ids.is_empty() {
                earlier.extend(items(&answer.value, "tasks").iter().cloned());
            }
            tokio::time::sleep(ROUND_PAUSE).await;
        }
    }

    fn remaining(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// Polls the tasks and updates the progress line. Without a terminal most waits are too short
    /// to meet trouble, so the first look comes later.
    async fn show(&self, ids: &[String], bar: &Spinner) -> Infallible {
        let mut printed = HashMap::new();
        let mut next = if bar.is_hidden() { PROGRESS_INTERVAL } else { Duration::ZERO };
        loop {
            tokio::time::sleep(next).await;
            next = PROGRESS_INTERVAL;
            let mut lines = Vec::new();
            for id in ids {
                let call = json!({"action": "status", "task_id": id});
                if let Ok(answer) = self.client.subagent(self.session, &call).await {
                    let hint = answer.value.get("poll_after_ms").and_then(Value::as_u64);
                    next = next.max(hint.map_or(PROGRESS_INTERVAL, Duration::from_millis));
                    lines.push(task_text::progress_line(&answer.value));
                    if bar.is_hidden() {
                        print_trouble(&mut printed, id, &answer.value);
                    }
                }
            }
            if !lines.is_empty() {
                bar.show(&lines.join("; "));
            }
        }
    }
}

/// With the tasks of earlier rounds: without ids the server names each task once.
fn with_earlier(mut answer: Answer, mut earlier: Vec<Value>) -> Answer {
    if !earlier.is_empty() {
        earlier.extend(items(&answer.value, "tasks").iter().cloned());
        answer.value["tasks"] = Value::Array(earlier);
        answer.text = answer.value.to_string();
    }
    answer
}

/// Without a terminal only trouble is printed: each error of a task's model calls and each reason
/// that holds it back once.
fn print_trouble(printed: &mut HashMap<String, String>, id: &str, task: &Value) {
    let error = task.get("retrying").map(|retrying| text(retrying, "error")).unwrap_or_default();
    let trouble = if error.is_empty() { task_text::why_code(task) } else { error };
    let before = printed.insert(id.to_owned(), trouble.clone());
    if !trouble.is_empty() && before.as_ref() != Some(&trouble) {
        note!("adjutant: {}", task_text::progress_line(task));
    }
}

/// The exit code of a command that waited for these tasks.
pub fn exit_for(tasks: &[Value]) -> Exit {
    let completed = tasks.iter().all(|task| text(task, "status") == "completed");
    if completed { Exit::Done } else { Exit::TaskFailed }
}
