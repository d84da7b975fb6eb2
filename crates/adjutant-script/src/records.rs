//! Where requests are recorded and answers chosen: one lock, held for neither IO nor waiting.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::asked::{Asked, Wire};
use crate::choose::{Chosen, Progress};
use crate::play::Play;
use crate::record::{Conversation, End, Keep, OnEnd, Outline, Recorded, Tally, TurnCount};
use crate::script::Script;

pub(crate) struct Records {
    script: Script,
    pub(crate) keep: Keep,
    on_end: Option<OnEnd>,
    state: Mutex<State>,
    pub(crate) tally: watch::Sender<Tally>,
}

#[derive(Default)]
struct State {
    requests: Vec<Recorded>,
    /// The count that each request belongs to.
    turn_of: Vec<Option<TurnKey>>,
    conversations: HashMap<u64, Arc<Conversation>>,
    turns: HashMap<TurnKey, TurnCount>,
    progress: Progress,
}

/// Conversation, turn, and what the user said since the turn before.
type TurnKey = (u64, u32, u64);

impl Records {
    pub(crate) fn new(script: Script, keep: Keep, on_end: Option<OnEnd>) -> Self {
        let tally = watch::Sender::new(Tally::default());
        Self { script, keep, on_end, state: Mutex::default(), tally }
    }

    /// Records a request and decides what becomes of it; what was not understood comes with the reason.
    pub(crate) fn open(
        self: &Arc<Self>,
        mut request: Recorded,
        asked: Result<Asked, Misunderstood>,
    ) -> (Play, Ending) {
        let mut state = self.lock();
        let number = state.requests.len();
        let request_id = format!("req_script{number:08}");
        request.number = number;
        let mut turn = None;
        let (play, end) = match asked {
            Err(misunderstood) => {
                let Misunderstood { wire, status, why } = misunderstood;
                (Play::error(wire, status, &why, &request_id), Some(End::Unexpected(why)))
            }
            Ok(asked) => {
                let key = (asked.conversation, asked.turn, asked.question);
                turn = Some(key);
                request.asked = Some(state.outline(&asked));
                match state.choose(&self.script, &asked, key) {
                    Ok(chosen) => {
                        request.rule = Some(chosen.rule.to_owned());
                        state.count(&request, key);
                        (Play::new(chosen.answer, &asked, &request_id), None)
                    }
                    Err(why) => {
                        let play =
                            Play::error(Some(asked.wire), 400, &not_in_script(&asked), &request_id);
                        (play, Some(End::Unexpected(why)))
                    }
                }
            }
        };
        state.requests.push(request);
        state.turn_of.push(turn);
        drop(state);
        self.tally.send_modify(|tally| tally.requests += 1);
        let mut ending = Ending { records: self.clone(), number, is_over: false };
        if let Some(end) = end {
            ending.is(end);
        }
        (play, ending)
    }

    fn end(&self, number: usize, end: End) {
        let mut state = self.lock();
        if let (End::Answered, Some(turn)) = (&end, state.turn_of[number])
            && let Some(count) = state.turns.get_mut(&turn)
        {
            count.answered += 1;
        }
        state.requests[number].end = Some(end.clone());
        let shown = self.on_end.as_ref().map(|on_end| (on_end, state.requests[number].clone()));
        drop(state);
        self.tally.send_modify(|tally| match end {
            End::Answered => tally.answered += 1,
            End::Failed => tally.failed += 1,
            End::HungUp => tally.hung_up += 1,
            End::Unexpected(_) => tally.unexpected += 1,
        });
        if let Some((on_end, request)) = shown {
            on_end(&request);
        }
    }

    pub(crate) fn requests(&self, wanted: impl Fn(&Recorded) -> bool) -> Vec<Recorded> {
        self.lock().requests.iter().filter(|request| wanted(request)).cloned().collect()
    }

    pub(crate) fn turns(&self) -> Vec<TurnCount> {
        let mut turns: Vec<TurnCount> = self.lock().turns.values().cloned().collect();
        turns.sort_by(|a, b| {
            (&a.conversation.assignment, a.conversation.id, a.turn).cmp(&(
                &b.conversation.assignment,
                b.conversation.id,
                b.turn,
            ))
        });
        turns
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn choose<'a>(
        &mut self,
        script: &'a Script,
        asked: &Asked,
        key: TurnKey,
    ) -> Result<Chosen<'a>, String> {
        if script.once && self.turns.get(&key).is_some_and(|count| count.answered > 0) {
            return Err(format!(
                "turn {} was answered already, and the script answers once",
                asked.turn
            ));
        }
        self.progress.choose(script, asked)
    }

    fn outline(&mut self, asked: &Asked) -> Outline {
        let conversation = self.conversations.entry(asked.conversation).or_insert_with(|| {
            Arc::new(Conversation { id: asked.conversation, assignment: asked.assignment.clone() })
        });
        Outline {
            wire: asked.wire,
            model: asked.model.clone(),
            streams: asked.streams,
            turn: asked.turn,
            conversation: conversation.clone(),
        }
    }

    fn count(&mut self, request: &Recorded, key: TurnKey) {
        let (Some(asked), Some(rule)) = (&request.asked, &request.rule) else { return };
        let count = self.turns.entry(key).or_insert_with(|| TurnCount {
            conversation: asked.conversation.clone(),
            turn: asked.turn,
            rule: String::new(),
            asked: 0,
            answered: 0,
        });
        count.asked += 1;
        count.rule.clone_from(rule);
    }
}

/// Why a request was not understood, and how that is answered.
pub(crate) struct Misunderstood {
    pub(crate) wire: Option<Wire>,
    pub(crate) status: u16,
    pub(crate) why: String,
}

/// The client logs this: it quotes nothing.
fn not_in_script(asked: &Asked) -> String {
    format!(
        "The script has no answer for turn {} of this; GET /script/unexpected says why.",
        asked.turn
    )
}

/// Writes down how a request ended; dropped without having been told, the client went away.
pub(crate) struct Ending {
    records: Arc<Records>,
    number: usize,
    is_over: bool,
}

impl Ending {
    /// Before the last byte goes out, so that whoever has read it finds it recorded.
    pub(crate) fn is(&mut self, end: End) {
        if !std::mem::replace(&mut self.is_over, true) {
            self.records.end(self.number, end);
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.is(End::HungUp);
    }
}
