//! The scripted model of the loops, and its own record of how long they left it alone between two turns.

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
/// Of each loop, without tools: each answer but the last is cut off, and the loop asks to go on.
pub const TURNS: usize = 5;
pub const ANSWER: &str = "The orchestrator delegates, the worker claims, the model answers, and each answer is stored \
    before anything else happens. Whoever dies, another goes on from there. ";

/// While single turns are timed, the model is as fast as this.
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

/// A turn of a conversation.
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

    /// Answers that it has given.
    pub fn answers(&self) -> usize {
        self.server.request_counts().answered
    }

    pub fn unexpected(&self) -> usize {
        self.server.request_counts().unexpected
    }

    /// From the end of an answer to the arrival of the same conversation's next request: all that a turn takes besides the
    /// model, and what HTTP takes.
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
    request.asked.as_ref().map(|asked| (asked.conversation.id, asked.turn))
}

/// Half of its time the model thinks, in the other half it stands still in the middle of its answer.
fn rule(script: Script, pace: Pace, time: Duration) -> Script {
    let answer = |answer: Answer| answer.delay(time / 2).pause(time / 2);
    let script = script.on(When::assignment(format!("{} loop", pace.word()))).named(pace.word());
    let cut_off = || answer(text(ANSWER).with_stop("max_tokens"));
    (1..TURNS).fold(script, |script, _| script.then(cut_off())).then(answer(text(ANSWER)))
}
