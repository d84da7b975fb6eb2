//! The scripted model of the loops. It records the time between two turns of a loop.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use adjutant_script::{
    Answer, End, Keep, Options, RecordedRequest, Script, ScriptServer, When, text,
};
use anyhow::Context;
use tempfile::NamedTempFile;

pub const NAME: &str = "script";
/// Turns per loop, without tools. All answers but the last end with `max_tokens`, so the loop
/// continues.
pub const TURNS: usize = 5;
pub const ANSWER: &str = "The orchestrator delegates, the worker claims, the model answers, and each answer is stored \
    before anything else happens. If a worker dies, another one continues. ";

/// The time for an answer while single turns are timed.
const QUICK: Duration = Duration::from_millis(20);

/// How fast the model answers.
#[derive(Debug, Clone, Copy)]
pub enum Pace {
    Warm,
    Quick,
    Slow,
}

impl Pace {
    pub fn word(self) -> &'static str {
        match self {
            Self::Warm => "warm",
            Self::Quick => "quick",
            Self::Slow => "slow",
        }
    }
}

/// A conversation and the number of a turn in it.
type Turn = (u64, u32);

pub struct Model {
    server: ScriptServer,
    config: NamedTempFile,
    answered: Arc<Mutex<HashMap<Turn, Instant>>>,
}

impl Model {
    pub async fn start(slow: Duration) -> anyhow::Result<Self> {
        let paces = [(Pace::Warm, Duration::ZERO), (Pace::Quick, QUICK), (Pace::Slow, slow)];
        let script =
            paces.into_iter().fold(Script::new(), |script, (pace, time)| rule(script, pace, time));
        let answered: Arc<Mutex<HashMap<Turn, Instant>>> = Arc::default();
        let ends = answered.clone();
        let on_end = move |request: &RecordedRequest| {
            if let (Some(turn), Some(End::Answered)) = (turn(request), &request.end) {
                ends.lock().unwrap_or_else(PoisonError::into_inner).insert(turn, Instant::now());
            }
        };
        let options =
            Options { keep: Keep::Outlines, on_end: Some(Box::new(on_end)), ..Options::default() };
        let server = ScriptServer::start_with(script, options)
            .await
            .context("cannot start the scripted model")?;
        let config = tempfile::Builder::new().suffix(".toml").tempfile()?;
        let url = server.openai_base_url();
        std::fs::write(
            config.path(),
            format!("[models.{NAME}]\nwire = \"openai\"\nbase_url = \"{url}\"\n"),
        )?;
        Ok(Self { server, config, answered })
    }

    /// A config with this model and nothing else.
    pub fn config(&self) -> &Path {
        self.config.path()
    }

    /// The number of answers so far.
    pub fn answers(&self) -> usize {
        self.server.request_counts().answered
    }

    pub fn unexpected(&self) -> usize {
        self.server.request_counts().unexpected
    }

    /// The times from the end of an answer to the next request of the same conversation: the
    /// overhead of a turn, including HTTP.
    pub fn gaps(&self, assignment: &str) -> Vec<Duration> {
        let answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        let requests = self.server.requests_of(assignment);
        let gap = |request: &RecordedRequest| {
            let (conversation, turn) = turn(request)?;
            let before = answered.get(&(conversation, turn.checked_sub(1)?))?;
            Some(request.arrived.saturating_duration_since(*before))
        };
        requests.iter().filter_map(gap).collect()
    }
}

fn turn(request: &RecordedRequest) -> Option<Turn> {
    request.parsed.as_ref().map(|parsed| (parsed.conversation.id, parsed.turn))
}

/// The model waits for half of the time before its answer, and for the other half in the middle of
/// it.
fn rule(script: Script, pace: Pace, time: Duration) -> Script {
    let answer = |answer: Answer| answer.delay(time / 2).pause(time / 2);
    let script = script.on(When::assignment(format!("{} loop", pace.word()))).named(pace.word());
    let cut_off = || answer(text(ANSWER).with_stop("max_tokens"));
    (1..TURNS).fold(script, |script, _| script.then(cut_off())).then(answer(text(ANSWER)))
}
