//! Records requests and chooses their answers, under one lock that is never held across an await.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::watch;

use crate::filled_reply::FilledReply;
use crate::model_request::{ModelRequest, Wire};
use crate::recorded_request::{
    Conversation, End, Keep, OnEnd, Outline, RecordedRequest, RequestCounts, TurnCount,
};
use crate::response_plan::ResponsePlan;
use crate::returned_fields::IssuedFields;
use crate::rule_selection::{Chosen, Progress};
use crate::script::Script;

pub(crate) struct Recorder {
    script: Script,
    pub(crate) keep: Keep,
    on_end: Option<OnEnd>,
    state: Mutex<State>,
    pub(crate) counts: watch::Sender<RequestCounts>,
}

#[derive(Default)]
struct State {
    requests: Vec<RecordedRequest>,
    /// The key of `turns` for each request.
    turn_of: Vec<Option<TurnKey>>,
    conversations: HashMap<u64, Arc<Conversation>>,
    turns: HashMap<TurnKey, TurnCount>,
    progress: Progress,
    issued: IssuedFields,
}

/// The conversation, the turn, and the hash of the user messages since the turn before.
type TurnKey = (u64, u32, u64);

impl Recorder {
    pub(crate) fn new(script: Script, keep: Keep, on_end: Option<OnEnd>) -> Self {
        let counts = watch::Sender::new(RequestCounts::default());
        Self { script, keep, on_end, state: Mutex::default(), counts }
    }

    /// Records a request and plans its response.
    pub(crate) fn open(
        self: &Arc<Self>,
        mut request: RecordedRequest,
        parsed: Result<ModelRequest, InvalidRequest>,
    ) -> (ResponsePlan, Ending) {
        let mut state = self.lock();
        let number = state.requests.len();
        let request_id = format!("req_script{number:08}");
        request.number = number;
        let mut turn = None;
        let parsed = parsed.and_then(|parsed| {
            let body = request.body.as_ref();
            match body.and_then(|body| state.issued.missing(parsed.wire, body)) {
                Some(why) => Err(InvalidRequest { wire: Some(parsed.wire), status: 400, why }),
                None => Ok(parsed),
            }
        });
        let (plan, end) = match parsed {
            Err(invalid) => {
                let InvalidRequest { wire, status, why } = invalid;
                (ResponsePlan::error(wire, status, &why, &request_id), Some(End::Unexpected(why)))
            }
            Ok(parsed) => {
                let key = (parsed.conversation, parsed.turn, parsed.question);
                turn = Some(key);
                request.parsed = Some(state.outline(&parsed));
                match state.choose(&self.script, &parsed, key) {
                    Ok(chosen) => {
                        request.rule = Some(chosen.rule.to_owned());
                        if chosen.answer.reply.has_reasoning() {
                            let reply = FilledReply::new(&chosen.answer.reply, &parsed, None);
                            state.issued.issue(parsed.wire, &reply);
                        }
                        state.count(&request, key);
                        (ResponsePlan::new(chosen.answer, &parsed, &request_id), None)
                    }
                    Err(why) => {
                        let plan = ResponsePlan::error(
                            Some(parsed.wire),
                            400,
                            &not_in_script(&parsed),
                            &request_id,
                        );
                        (plan, Some(End::Unexpected(why)))
                    }
                }
            }
        };
        state.requests.push(request);
        state.turn_of.push(turn);
        drop(state);
        self.counts.send_modify(|counts| counts.requests += 1);
        let mut ending = Ending { records: self.clone(), number, is_recorded: false };
        if let Some(end) = end {
            ending.record(end);
        }
        (plan, ending)
    }

    fn end(&self, number: usize, end: End) {
        let mut state = self.lock();
        if let (End::Answered, Some(turn)) = (&end, state.turn_of[number])
            && let Some(count) = state.turns.get_mut(&turn)
        {
            count.answered += 1;
        }
        state.requests[number].end = Some(end.clone());
        state.requests[number].ended = Some(Instant::now());
        let shown = self.on_end.as_ref().map(|on_end| (on_end, state.requests[number].clone()));
        drop(state);
        self.counts.send_modify(|counts| match end {
            End::Answered => counts.answered += 1,
            End::Failed => counts.failed += 1,
            End::HungUp => counts.hung_up += 1,
            End::Unexpected(_) => counts.unexpected += 1,
        });
        if let Some((on_end, request)) = shown {
            on_end(&request);
        }
    }

    pub(crate) fn requests(
        &self,
        wanted: impl Fn(&RecordedRequest) -> bool,
    ) -> Vec<RecordedRequest> {
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
        parsed: &ModelRequest,
        key: TurnKey,
    ) -> Result<Chosen<'a>, String> {
        if script.once && self.turns.get(&key).is_some_and(|count| count.answered > 0) {
            return Err(format!(
                "turn {} was answered already, and the script answers once",
                parsed.turn
            ));
        }
        self.progress.choose(script, parsed)
    }

    fn outline(&mut self, parsed: &ModelRequest) -> Outline {
        let conversation = self.conversations.entry(parsed.conversation).or_insert_with(|| {
            Arc::new(Conversation {
                id: parsed.conversation,
                assignment: parsed.assignment.clone(),
            })
        });
        Outline {
            wire: parsed.wire,
            model: parsed.model.clone(),
            streams: parsed.streams,
            turn: parsed.turn,
            conversation: conversation.clone(),
        }
    }

    fn count(&mut self, request: &RecordedRequest, key: TurnKey) {
        let (Some(parsed), Some(rule)) = (&request.parsed, &request.rule) else { return };
        let count = self.turns.entry(key).or_insert_with(|| TurnCount {
            conversation: parsed.conversation.clone(),
            turn: parsed.turn,
            rule: String::new(),
            requested: 0,
            answered: 0,
        });
        count.requested += 1;
        count.rule.clone_from(rule);
    }
}

/// A request that is no valid model request, with the status of its response and the reason.
pub(crate) struct InvalidRequest {
    pub(crate) wire: Option<Wire>,
    pub(crate) status: u16,
    pub(crate) why: String,
}

/// Quotes nothing of the request, because clients log it.
fn not_in_script(parsed: &ModelRequest) -> String {
    format!(
        "The script has no answer for turn {} of this; GET /script/unexpected says why.",
        parsed.turn
    )
}

/// Records how a request ended. If it is dropped before, the client has closed the connection.
pub(crate) struct Ending {
    records: Arc<Recorder>,
    number: usize,
    is_recorded: bool,
}

impl Ending {
    /// Call it before the last byte is sent, so that a client that has read the response finds it
    /// recorded.
    pub(crate) fn record(&mut self, end: End) {
        if !std::mem::replace(&mut self.is_recorded, true) {
            self.records.end(self.number, end);
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.record(End::HungUp);
    }
}
