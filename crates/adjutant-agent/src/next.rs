use crate::envelope::Envelope;
use crate::{
    AgentSpec, Conversation, FailureKind, Outcome, PendingCall, Request, StopReason, StoredTurn,
    TurnKind, prompts,
};

/// What a task's loop does next.
#[derive(Debug, Clone, PartialEq)]
pub enum Next<'a> {
    /// Ask the model, and store its answer as a turn of this kind.
    CallModel {
        kind: TurnKind,
        request: Request<'a>,
    },
    /// Get a result for each of these calls and store it, in any order or side by side.
    RunTools(Vec<PendingCall<'a>>),
    /// Answer those of these calls whose children have ended; else let go of the task until they have.
    Await(Vec<PendingCall<'a>>),
    Finish(Outcome),
}

/// Decides from what is stored and from nothing else, so that going on after a crash is the same as never having stopped.
///
/// `attempt` is the current one; it only tells which tool calls an earlier attempt may have made. The tools that the last
/// allowed turn asks for are not run: no model would see what they gave.
pub fn next<'a>(
    conversation: &Conversation<'a>,
    turns: &'a [StoredTurn],
    attempt: i32,
) -> Next<'a> {
    let agent = conversation.agent;
    let call = |kind| Next::CallModel { kind, request: conversation.request(turns, kind) };
    let failed = |failure, error| Next::Finish(give_up(turns, failure, error));
    let Some(last) = turns.last() else { return call(TurnKind::Turn) };
    if last.turn.kind == TurnKind::Summary {
        return Next::Finish(completed(turns));
    }
    match Standing::after(turns) {
        Standing::Refused => failed(FailureKind::Model, prompts::REFUSED),
        Standing::WantsTools | Standing::CutOff if turns_used(turns) >= max_turns(agent) => {
            failed(FailureKind::MaxTurns, prompts::MAX_TURNS)
        }
        Standing::WantsTools => {
            let pending = PendingCall::of(last, attempt);
            // Waits come last: what they wait for may be spawned beside them.
            let (waits, tools): (Vec<_>, Vec<_>) =
                pending.into_iter().partition(|pending| (conversation.waits)(agent, pending.call));
            match (tools.is_empty(), waits.is_empty()) {
                (false, _) => Next::RunTools(tools),
                (true, false) => Next::Await(waits),
                (true, true) => call(TurnKind::Turn),
            }
        }
        Standing::CutOff => call(TurnKind::Turn),
        Standing::Empty if was_asked_again(turns) => {
            failed(FailureKind::EmptyResult, prompts::EMPTY_RESULT)
        }
        Standing::Empty => call(TurnKind::AskAgain),
        Standing::Answered if agent.summary_prompt().is_some() => call(TurnKind::Summary),
        Standing::Answered => Next::Finish(completed(turns)),
    }
}

/// The turns that count against `max_turns`, and that callers are shown.
pub fn turns_used(turns: &[StoredTurn]) -> usize {
    turns.iter().filter(|stored| stored.turn.kind == TurnKind::Turn).count()
}

/// How a task ends that cannot go on, for a reason that its turns do not tell: a budget, a time-out, a model that cannot be
/// reached. What it has said so far is kept; if only the summary was missing, it completes without.
pub fn give_up(turns: &[StoredTurn], failure: FailureKind, error: impl Into<String>) -> Outcome {
    match Standing::after(turns) {
        Standing::Answered => completed(turns),
        Standing::Refused | Standing::WantsTools | Standing::CutOff | Standing::Empty => {
            Outcome::Failed { failure, error: error.into(), partial_result: partial_result(turns) }
        }
    }
}

/// The last that the agent said, for a task that has no result.
pub fn partial_result(turns: &[StoredTurn]) -> Option<String> {
    let spoken = without_summary(turns);
    (1..=spoken.len()).rev().map(|end| last_text(&spoken[..end])).find(|text| !is_empty(text))
}

/// How the loop stands after its last turn.
enum Standing {
    Refused,
    WantsTools,
    CutOff,
    Empty,
    Answered,
}

impl Standing {
    fn after(turns: &[StoredTurn]) -> Self {
        let spoken = without_summary(turns);
        let Some(last) = spoken.last() else { return Self::Empty };
        if last.turn.answer.stop == StopReason::Refusal {
            Self::Refused
        } else if last.wants_tools() {
            Self::WantsTools
        } else if is_empty(&last_text(spoken)) {
            Self::Empty
        } else if last.is_cut_off() {
            Self::CutOff
        } else {
            Self::Answered
        }
    }
}

fn completed(turns: &[StoredTurn]) -> Outcome {
    let text = last_text(without_summary(turns));
    let summary = asked_summary(turns);
    match Envelope::open(&text) {
        Some(Envelope { summary: enclosed, result }) => Outcome::Completed {
            result: result.to_owned(),
            summary: summary.or_else(|| enclosed.map(str::to_owned)),
        },
        None => Outcome::Completed { result: text, summary },
    }
}

fn asked_summary(turns: &[StoredTurn]) -> Option<String> {
    let answer = turns
        .last()
        .filter(|last| last.turn.kind == TurnKind::Summary)
        .map(|last| &last.turn.answer)?;
    match answer.stop {
        StopReason::End | StopReason::MaxTokens => answer.text().map(|text| text.trim().to_owned()),
        StopReason::Refusal => None,
    }
}

/// The text of the last turn, joined to that of the turns directly before it which were cut off.
fn last_text(turns: &[StoredTurn]) -> String {
    let Some((_, before)) = turns.split_last() else { return String::new() };
    let cut_off = before.iter().rev().take_while(|stored| stored.is_cut_off()).count();
    turns[before.len() - cut_off..]
        .iter()
        .flat_map(|stored| stored.turn.answer.text_parts())
        .collect()
}

/// A model that repeats what stands for its own empty answer has still said nothing.
fn is_empty(text: &str) -> bool {
    matches!(text.trim(), "" | prompts::EMPTY_ANSWER)
}

fn without_summary(turns: &[StoredTurn]) -> &[StoredTurn] {
    match turns {
        [spoken @ .., last] if last.turn.kind == TurnKind::Summary => spoken,
        turns => turns,
    }
}

fn was_asked_again(turns: &[StoredTurn]) -> bool {
    turns.iter().any(|stored| stored.turn.kind == TurnKind::AskAgain)
}

pub(crate) fn max_turns(agent: &AgentSpec) -> usize {
    usize::try_from(agent.max_turns).unwrap_or(0).max(1)
}

impl StoredTurn {
    pub(crate) fn wants_tools(&self) -> bool {
        self.turn.answer.tool_uses().next().is_some()
    }

    /// Its text ended at the limit of tokens. A cut-off answer with tool calls is not: the calls are its end.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.turn.answer.stop == StopReason::MaxTokens && !self.wants_tools()
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
