use crate::envelope::Envelope;
use crate::{
    AgentConfig, Conversation, FailureKind, Outcome, PendingCall, Request, StopReason, StoredTurn,
    TurnKind, prompts,
};

/// What a task's loop does next.
#[derive(Debug, Clone, PartialEq)]
pub enum Next<'a> {
    /// Call the model, and store its answer as a turn of this kind.
    CallModel {
        kind: TurnKind,
        request: Request<'a>,
    },
    /// Run these tool calls, in any order or concurrently, and store their results.
    RunTools(Vec<PendingCall<'a>>),
    /// Answer the calls whose children have ended. If there are none, make the task wait for
    /// children.
    WaitForChildren(Vec<PendingCall<'a>>),
    Finish(Outcome),
}

/// Decides the next step from the stored turns only, so that a task resumes after a crash as if it
/// had not stopped.
///
/// `attempt` is the current attempt; it tells which tool calls an earlier attempt may have made.
/// The tool calls of the last allowed turn are not run, because no model call would follow them.
pub fn next<'a>(
    conversation: &Conversation<'a>,
    turns: &'a [StoredTurn],
    attempt: i32,
) -> Next<'a> {
    let agent = conversation.agent;
    let call = |kind| Next::CallModel { kind, request: conversation.request(turns, kind) };
    let failed = |failure, error: &str| Next::Finish(give_up(turns, failure, error));
    let Some(last) = turns.last() else { return call(TurnKind::Turn) };
    if last.turn.kind == TurnKind::Summary {
        return Next::Finish(completed(turns));
    }
    match LoopState::after(turns) {
        LoopState::Refused => failed(FailureKind::Model, &prompts::model_error(prompts::REFUSED)),
        LoopState::WantsTools | LoopState::CutOff if turns_used(turns) >= max_turns(agent) => {
            failed(FailureKind::MaxTurns, prompts::MAX_TURNS)
        }
        LoopState::WantsTools => {
            let pending = PendingCall::of(last, attempt);
            // Waits come last: another call of the same turn may spawn the child to wait for.
            let (waits, tools): (Vec<_>, Vec<_>) =
                pending.into_iter().partition(|pending| (conversation.waits)(agent, pending.call));
            match (tools.is_empty(), waits.is_empty()) {
                (false, _) => Next::RunTools(tools),
                (true, false) => Next::WaitForChildren(waits),
                (true, true) => call(TurnKind::Turn),
            }
        }
        LoopState::CutOff => call(TurnKind::Turn),
        LoopState::Empty if was_asked_again(turns) => {
            failed(FailureKind::EmptyResult, prompts::EMPTY_RESULT)
        }
        LoopState::Empty => call(TurnKind::AskAgain),
        LoopState::Answered if agent.summary_prompt().is_some() => call(TurnKind::Summary),
        LoopState::Answered => Next::Finish(completed(turns)),
    }
}

/// The number of turns that count against `max_turns`; the `turns_used` of answers to clients.
pub fn turns_used(turns: &[StoredTurn]) -> usize {
    turns.iter().filter(|stored| stored.turn.kind == TurnKind::Turn).count()
}

/// The outcome of a task that has to stop for a reason outside its turns: a budget, a timeout, a
/// model that cannot be reached. Its last text becomes the partial result. If only the summary is
/// missing, the task completes without one.
pub fn give_up(turns: &[StoredTurn], failure: FailureKind, error: impl Into<String>) -> Outcome {
    match LoopState::after(turns) {
        LoopState::Answered => completed(turns),
        LoopState::Refused | LoopState::WantsTools | LoopState::CutOff | LoopState::Empty => {
            Outcome::Failed { failure, error: error.into(), partial_result: partial_result(turns) }
        }
    }
}

/// The last text of the agent, for a task without a result.
pub fn partial_result(turns: &[StoredTurn]) -> Option<String> {
    let answers = without_summary(turns);
    (1..=answers.len()).rev().map(|end| last_text(&answers[..end])).find(|text| !is_empty(text))
}

/// The state of the loop after its last turn.
enum LoopState {
    Refused,
    WantsTools,
    CutOff,
    Empty,
    Answered,
}

impl LoopState {
    fn after(turns: &[StoredTurn]) -> Self {
        let answers = without_summary(turns);
        let Some(last) = answers.last() else { return Self::Empty };
        if last.turn.answer.stop == StopReason::Refusal {
            Self::Refused
        } else if last.wants_tools() {
            Self::WantsTools
        } else if is_empty(&last_text(answers)) {
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
    let summary = summary_text(turns);
    match Envelope::parse(&text) {
        Some(Envelope { summary: enclosed, result }) => Outcome::Completed {
            result: result.to_owned(),
            summary: summary.or_else(|| enclosed.map(str::to_owned)),
        },
        None => Outcome::Completed { result: text, summary },
    }
}

fn summary_text(turns: &[StoredTurn]) -> Option<String> {
    let answer = turns
        .last()
        .filter(|last| last.turn.kind == TurnKind::Summary)
        .map(|last| &last.turn.answer)?;
    match answer.stop {
        StopReason::End | StopReason::MaxTokens => answer.text().map(|text| text.trim().to_owned()),
        StopReason::Refusal => None,
    }
}

/// The text of the last turn, appended to that of the turns directly before it that were cut off.
fn last_text(turns: &[StoredTurn]) -> String {
    let Some((_, before)) = turns.split_last() else { return String::new() };
    let cut_off = before.iter().rev().take_while(|stored| stored.is_cut_off()).count();
    turns[before.len() - cut_off..]
        .iter()
        .flat_map(|stored| stored.turn.answer.text_parts())
        .collect()
}

/// A model may repeat the placeholder of its own empty answer: that is empty, too.
fn is_empty(text: &str) -> bool {
    matches!(text.trim(), "" | prompts::EMPTY_ANSWER)
}

fn without_summary(turns: &[StoredTurn]) -> &[StoredTurn] {
    match turns {
        [answers @ .., last] if last.turn.kind == TurnKind::Summary => answers,
        turns => turns,
    }
}

fn was_asked_again(turns: &[StoredTurn]) -> bool {
    turns.iter().any(|stored| stored.turn.kind == TurnKind::AskAgain)
}

pub(crate) fn max_turns(agent: &AgentConfig) -> usize {
    usize::try_from(agent.max_turns).unwrap_or(0).max(1)
}

impl StoredTurn {
    pub(crate) fn wants_tools(&self) -> bool {
        self.turn.answer.tool_uses().next().is_some()
    }

    /// Whether its text was cut off at the token limit. An answer with tool calls does not count:
    /// the loop continues with the calls.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.turn.answer.stop == StopReason::MaxTokens && !self.wants_tools()
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
