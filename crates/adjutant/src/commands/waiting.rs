//! Waiting for tasks, over restarts of the server.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::client::{Answer, CallError, Client, LONGEST_WAIT};
use crate::commands::tell;
use crate::exit::Exit;
use crate::signals::{Interrupted, Signals};
use crate::table::text;

/// Between two looks at what is shown while one waits, if the server names no time.
const LOOK: Duration = Duration::from_secs(2);

/// Between two rounds, so that a server that stops is not asked as fast as it can answer.
const BREATH: Duration = Duration::from_millis(100);

/// Somebody who waits in a session.
pub struct Waiting<'a> {
    pub client: &'a Client,
    pub session: &'a str,
    /// When to wait no longer.
    pub until: Option<Instant>,
}

/// How a wait ended.
#[derive(Debug)]
pub enum Waited {
    /// The server's answer has those that ended. None: there was nothing to wait for.
    Ended(Answer),
    /// The server's last answer, if there was one, has those that ended meanwhile.
    TimedOut(Option<Answer>),
    /// A signal came first.
    Interrupted(Interrupted),
}

/// What a wait is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enough {
    Any,
    All,
}

impl Enough {
    fn as_str(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::All => "all",
        }
    }
}

impl Waiting<'_> {
    /// Waits for tasks, or without ids for whatever is active, and shows how far they are if there is a terminal.
    pub async fn wait(&self, ids: &[String], enough: Enough) -> anyhow::Result<Waited> {
        let bar = spinner()?;
        let mut signals = Signals::listen()?;
        let waited = tokio::select! {
            waited = self.rounds(ids, enough) => waited?,
            never = self.show(ids, &bar) => match never {},
            name = signals.next() => Waited::Interrupted(Interrupted(name)),
        };
        bar.finish_and_clear();
        Ok(waited)
    }

    /// The server keeps no request for longer than a round, and answers sooner when it is about to stop.
    async fn rounds(&self, ids: &[String], enough: Enough) -> Result<Waited, CallError> {
        loop {
            let left = self.left();
            let round = left.map_or(LONGEST_WAIT, |left| left.min(LONGEST_WAIT));
            let mut call =
                json!({"action": "wait", "mode": enough.as_str(), "timeout_s": round.as_secs_f64()});
            if !ids.is_empty() {
                call["task_ids"] = json!(ids);
            }
            let answer = self.client.patiently(async || self.client.subagent(self.session, &call).await);
            let answer = match left {
                // A server that is away is not waited for longer than the task.
                Some(left) => match tokio::time::timeout(left + LOOK, answer).await {
                    Ok(answer) => answer?,
                    Err(_) => return Ok(Waited::TimedOut(None)),
                },
                None => answer.await?,
            };
            if answer.value.get("timed_out").and_then(Value::as_bool) != Some(true) {
                return Ok(Waited::Ended(answer));
            }
            if self.left().is_some_and(|left| left <= BREATH) {
                return Ok(Waited::TimedOut(Some(answer)));
            }
            tokio::time::sleep(BREATH).await;
        }
    }

    fn left(&self) -> Option<Duration> {
        self.until.map(|until| until.saturating_duration_since(Instant::now()))
    }

    /// Looks at the tasks again and again; nobody waits for what it finds.
    async fn show(&self, ids: &[String], bar: &ProgressBar) -> Infallible {
        if bar.is_hidden() {
            return std::future::pending().await;
        }
        loop {
            let (mut shown, mut next) = (Vec::new(), LOOK);
            for id in ids {
                let call = json!({"action": "status", "task_id": id});
                if let Ok(answer) = self.client.subagent(self.session, &call).await {
                    let hint = answer.value.get("poll_after_ms").and_then(Value::as_u64);
                    next = next.max(hint.map_or(LOOK, Duration::from_millis));
                    shown.push(tell::progress(&answer.value));
                }
            }
            if !shown.is_empty() {
                bar.set_message(shown.join("; "));
            }
            tokio::time::sleep(next).await;
        }
    }
}

/// On standard error, and only if that is a terminal.
fn spinner() -> anyhow::Result<ProgressBar> {
    let bar = ProgressBar::new_spinner();
    bar.set_style(ProgressStyle::with_template("{spinner} {elapsed}  {wide_msg}")?);
    bar.set_message("waiting");
    if !bar.is_hidden() {
        bar.enable_steady_tick(Duration::from_millis(120));
    }
    Ok(bar)
}

/// How a command ends that waited for these.
pub fn exit_of(tasks: &[Value]) -> Exit {
    let completed = tasks.iter().all(|task| text(task, "status") == "completed");
    if completed { Exit::Done } else { Exit::TaskFailed }
}
