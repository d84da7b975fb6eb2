//! Fits a conversation into its model's context window: when it gets too long, old tool results are
//! left out of the request. The store keeps them.
//!
//! What is left out is not stored. It is computed again for each request by replaying all earlier
//! requests, so that it is the same on every worker. The conversation is shortened by much at once,
//! so that its start stays the same for many turns and the provider's prompt cache stays valid.

use std::borrow::Cow;

use crate::conversation::ConversationTurn;
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
    fn limit(&self) -> i64 {
        let spare = self.context_tokens / 20;
        (self.context_tokens - self.max_output_tokens - spare).max(self.context_tokens / 4)
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
pub(crate) struct FittedResults(Vec<Vec<Form>>);

impl FittedResults {
    /// Replays all requests up to the next one. The length of a request is the length that the
    /// provider reported for the one before it, with its answer, plus an estimate of what was
    /// added; without the provider's figures all of it is estimated. `opening` is the length of the
    /// system prompt and the first message, in bytes.
    pub fn new(
        window: Option<ContextWindow>,
        opening: usize,
        conversation: &[ConversationTurn<'_>],
    ) -> Self {
        let calls = |turn: &ConversationTurn<'_>| turn.stored.turn.answer.tool_uses().count();
        let mut fitted =
            Self(conversation.iter().map(|turn| vec![Form::Whole; calls(turn)]).collect());
        let Some(window) = window else { return fitted };
        let mut size = tokens(opening) + 1;
        for (index, turn) in conversation.iter().enumerate() {
            let usage = &turn.stored.turn.usage;
            size = if usage.input_tokens > 0 {
                usage.input_tokens.saturating_add(usage.output_tokens)
            } else {
                size.saturating_add(tokens(bytes_of(&turn.stored.turn.answer)))
            };
            let results = turn
                .stored
                .tool_results
                .iter()
                .map(|result| tokens(result.content.len()))
                .sum::<i64>();
            let message = turn.user_message.map_or(0, |text| tokens(text.len()));
            size = size.saturating_add(results).saturating_add(message);
            if size > window.limit() {
                size = fitted.shrink(&conversation[..=index], size, &window);
            }
        }
        fitted
    }

    /// The text of the result of the `nth` call of a turn in the request.
    pub fn content<'a>(&self, turn: usize, nth: usize, whole: &'a str) -> Cow<'a, str> {
        match self.0[turn][nth] {
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

    /// Shortens a conversation of `size` tokens, and returns its new length.
    fn shrink(
        &mut self,
        conversation: &[ConversationTurn<'_>],
        mut size: i64,
        window: &ContextWindow,
    ) -> i64 {
        let Some(latest) = conversation.iter().rposition(|turn| turn.stored.wants_tools()) else {
            return size;
        };
        for (index, turn) in conversation[..latest].iter().enumerate() {
            for (nth, bytes) in result_bytes(turn.stored).enumerate() {
                if size <= window.target() {
                    return size;
                }
                let shown = self.shown_bytes(index, nth, bytes);
                if shown > MIN_RESULT {
                    size -= tokens(shown) - tokens(prompts::left_out(bytes).len());
                    self.0[index][nth] = Form::Note;
                }
            }
        }
        if size > window.limit() {
            self.cut(latest, conversation[latest].stored, size, window)
        } else {
            size
        }
    }

    /// Cuts the longest of the latest results, which the model has not seen yet, to one common
    /// length: the greatest that is short enough.
    fn cut(
        &mut self,
        latest: usize,
        stored: &StoredTurn,
        size: i64,
        window: &ContextWindow,
    ) -> i64 {
        let bytes: Vec<usize> = result_bytes(stored).collect();
        let shown: Vec<usize> =
            (0..).zip(&bytes).map(|(nth, bytes)| self.shown_bytes(latest, nth, *bytes)).collect();
        let length = common_length(&shown, size - window.cut_target());
        let mut size = size;
        for (nth, shown) in shown.into_iter().enumerate().filter(|(_, shown)| *shown > length) {
            size -= tokens(shown) - tokens(length);
            self.0[latest][nth] = Form::Cut(length);
        }
        size
    }

    fn shown_bytes(&self, turn: usize, nth: usize, bytes: usize) -> usize {
        match self.0[turn][nth] {
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
