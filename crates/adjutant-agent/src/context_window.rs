//! Fits a conversation into its model's context window, if it is not compacted: when it gets too
//! long, old tool results are left out of the request. The store keeps them.
//!
//! What is left out is not stored. It is computed again for each request by replaying all earlier
//! requests, so that it is the same on every worker. The conversation is shortened by much at once,
//! so that its start stays the same for many turns and the provider's prompt cache stays valid.

use std::borrow::Cow;

use crate::transcript::TranscriptTurn;
use crate::{Answer, Arguments, Block, StoredTurn, prompts};

/// The context window of a model, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextWindow {
    /// The limit of prompt and answer together.
    pub context_tokens: i64,
    /// The limit of the answer.
    pub max_output_tokens: i64,
}

/// Overestimates the tokens of a text: English has more bytes per token, code and most other
/// scripts have about as many.
const BYTES_PER_TOKEN: usize = 3;
/// A shorter result, in bytes, is not left out: the note in its place would hardly be shorter. No
/// result is cut to less.
const MIN_RESULT: usize = 600;

impl ContextWindow {
    /// The longest prompt: the window without the answer, and 5 % less because sizes are estimates.
    /// At least a quarter of the window, whatever `max_output_tokens` is.
    pub(crate) fn limit(&self) -> i64 {
        let spare = self.context_tokens / 20;
        (self.context_tokens - self.max_output_tokens - spare).max(self.context_tokens / 4)
    }

    /// A window with this limit.
    fn of_limit(limit: i64) -> Self {
        Self { context_tokens: limit.saturating_mul(20) / 19, max_output_tokens: 0 }
    }

    /// The length to which old results are left out: half the limit, so that this is rarely needed.
    fn target(&self) -> i64 {
        self.limit() / 2
    }

    /// The length to which the latest results are cut: three quarters of the limit, because they
    /// matter most; cut to the limit itself, they would have to be cut again in the next turn.
    fn cut_target(&self) -> i64 {
        self.limit() / 4 * 3
    }

    /// The most that the results of one turn take of a conversation that is compacted: half, so
    /// that the model sees them before it has to sum up.
    fn most_of_one_turn(&self) -> i64 {
        self.limit() / 2
    }
}

/// How a conversation is fitted into the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fitting {
    /// Not at all.
    Whole,
    /// Old results are left out when it gets too long.
    LeaveOut(ContextWindow),
    /// What was sent never changes: results that are too long are cut when they come.
    Append(ContextWindow),
    /// Results are left out until half is left, because the whole was refused as too long.
    Halve,
}

/// How a tool result appears in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Whole,
    /// Its start and its end, of so many bytes together.
    Cut(usize),
    /// Only a note with its length.
    Note,
}

/// The form of each tool result of a conversation, by turn and by call in the turn.
pub(crate) struct FittedResults {
    forms: Vec<Vec<Form>>,
    size: i64,
}

impl FittedResults {
    /// Replays all requests up to the next one. The length of a request is the length that the
    /// provider reported for the one before it, with its answer, plus an estimate of what was
    /// added; without the provider's figures all of it is estimated. `opening` is the length of the
    /// system prompt and the first message, in bytes.
    pub fn new(fitting: Fitting, opening: usize, conversation: &[TranscriptTurn<'_>]) -> Self {
        let calls = |turn: &TranscriptTurn<'_>| turn.stored.turn.answer.tool_uses().count();
        let forms = conversation.iter().map(|turn| vec![Form::Whole; calls(turn)]).collect();
        let mut fitted = Self { forms, size: tokens(opening) + 1 };
        if fitting == Fitting::Whole {
            return fitted;
        }
        for (index, turn) in conversation.iter().enumerate() {
            let usage = &turn.stored.turn.usage;
            let answered = if usage.input_tokens > 0 && !turn.is_kept {
                usage.input_tokens.saturating_add(usage.output_tokens)
            } else {
                fitted.size.saturating_add(tokens(bytes_of(&turn.stored.turn.answer)))
            };
            let results = turn
                .stored
                .tool_results
                .iter()
                .map(|result| tokens(result.content.len()))
                .sum::<i64>();
            let message = turn.user_message.as_ref().map_or(0, |text| tokens(text.len()));
            fitted.size = answered.saturating_add(results).saturating_add(message);
            match fitting {
                Fitting::LeaveOut(window) if fitted.size > window.limit() => {
                    fitted.shrink(&conversation[..=index], &window);
                }
                Fitting::Append(window) if results > window.most_of_one_turn() => {
                    fitted.cut(index, turn.stored, results - window.most_of_one_turn());
                }
                Fitting::LeaveOut(_) | Fitting::Append(_) | Fitting::Whole | Fitting::Halve => {}
            }
        }
        if fitting == Fitting::Halve {
            fitted.shrink(conversation, &ContextWindow::of_limit(fitted.size / 2));
        }
        fitted
    }

    /// The length of the request in tokens; only the opening's if nothing is fitted.
    pub fn size(&self) -> i64 {
        self.size
    }

    /// The text of the result of the `nth` call of a turn in the request.
    pub fn content<'a>(&self, turn: usize, nth: usize, whole: &'a str) -> Cow<'a, str> {
        match self.forms[turn][nth] {
            Form::Whole if whole.trim().is_empty() => Cow::Borrowed(prompts::EMPTY_TOOL_RESULT),
            Form::Whole => Cow::Borrowed(whole),
            Form::Cut(bytes) => {
                let (start, end) = ends(whole, bytes);
                let left_out = whole[start.len()..whole.len() - end.len()].chars().count();
                Cow::Owned(format!("{start}{}{end}", prompts::left_out_within(left_out)))
            }
            Form::Note => Cow::Owned(prompts::left_out(whole.chars().count())),
        }
    }

    /// Shortens a conversation that is too long.
    fn shrink(&mut self, conversation: &[TranscriptTurn<'_>], window: &ContextWindow) {
        let Some(latest) = conversation.iter().rposition(|turn| turn.stored.wants_tools()) else {
            return;
        };
        for (index, turn) in conversation[..latest].iter().enumerate() {
            for (nth, bytes) in result_bytes(turn.stored).enumerate() {
                if self.size <= window.target() {
                    return;
                }
                let shown = self.shown_bytes(index, nth, bytes);
                if shown > MIN_RESULT {
                    self.size -= tokens(shown) - tokens(prompts::left_out(bytes).len());
                    self.forms[index][nth] = Form::Note;
                }
            }
        }
        if self.size > window.limit() {
            self.cut(latest, conversation[latest].stored, self.size - window.cut_target());
        }
    }

    /// Cuts the longest of the latest results, which the model has not seen yet, to one common
    /// length: the greatest that saves so many tokens.
    fn cut(&mut self, latest: usize, stored: &StoredTurn, excess: i64) {
        let bytes: Vec<usize> = result_bytes(stored).collect();
        let shown: Vec<usize> =
            (0..).zip(&bytes).map(|(nth, bytes)| self.shown_bytes(latest, nth, *bytes)).collect();
        let length = common_length(&shown, excess);
        for (nth, shown) in shown.into_iter().enumerate().filter(|(_, shown)| *shown > length) {
            self.size -= tokens(shown) - tokens(length);
            self.forms[latest][nth] = Form::Cut(length);
        }
    }

    fn shown_bytes(&self, turn: usize, nth: usize, bytes: usize) -> usize {
        match self.forms[turn][nth] {
            Form::Whole => bytes,
            Form::Cut(kept) => kept,
            Form::Note => 0,
        }
    }
}

/// The greatest length to which texts of these lengths can be cut to save `excess` tokens.
fn common_length(lengths: &[usize], excess: i64) -> usize {
    let excess = usize::try_from(excess).unwrap_or(0).saturating_mul(BYTES_PER_TOKEN);
    let mut longest_first = lengths.to_vec();
    longest_first.sort_unstable_by(|a, b| b.cmp(a));
    let mut sum = 0;
    for (nth, length) in longest_first.iter().enumerate() {
        sum += length;
        let common = sum.saturating_sub(excess) / (nth + 1);
        if longest_first.get(nth + 1).is_none_or(|shorter| common >= *shorter) {
            return common.max(MIN_RESULT);
        }
    }
    MIN_RESULT
}

/// The start and the end of a text, of at most `bytes` together. No character is split.
fn ends(text: &str, bytes: usize) -> (&str, &str) {
    let start = text.floor_char_boundary(bytes / 2);
    let end = text.ceil_char_boundary(text.len() - (bytes / 2).min(text.len() - start));
    (&text[..start], &text[end..])
}

/// The lengths of a turn's results, by call.
fn result_bytes(stored: &StoredTurn) -> impl Iterator<Item = usize> {
    let calls = stored.turn.answer.tool_uses();
    calls.map(|call| stored.result_of(call).map_or(0, |result| result.content.len()))
}

fn bytes_of(answer: &Answer) -> usize {
    let bytes = |block: &Block| match block {
        Block::Text { text } => text.len(),
        Block::ToolUse(call) => {
            let arguments = match &call.arguments {
                Arguments::Json(value) => value.to_string().len(),
                Arguments::Malformed(text) | Arguments::CutOff(text) => text.len(),
            };
            let extra = call.extra.as_ref().map_or(0, |extra| {
                extra.fields.values().map(|value| value.to_string().len()).sum()
            });
            call.name.len() + arguments + extra
        }
        Block::Opaque { wire: _, value } => value.to_string().len(),
    };
    answer.content.iter().map(bytes).sum()
}

fn tokens(bytes: usize) -> i64 {
    i64::try_from(bytes / BYTES_PER_TOKEN + 1).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
