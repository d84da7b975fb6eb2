//! When a conversation nears its model's window, old tool results leave the request; the store keeps them.
//!
//! Nothing remembers what has left: it is worked out anew for each request, by going through all the requests that were
//! made before. So it is the same on every worker. And once something leaves, much does: the start of the conversation
//! then stays as it is for many turns, and the provider's cache of it stays good.

use std::borrow::Cow;

use crate::conversation::Said;
use crate::{Answer, Arguments, Block, StoredTurn, prompts};

/// What fits into a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Of prompt and answer together.
    pub context_tokens: i64,
    /// Of the answer at most.
    pub max_output_tokens: i64,
}

/// Guesses a text's tokens rather too high: English has more bytes to a token, code and most other scripts as many.
const BYTES_PER_TOKEN: usize = 3;
/// What is shorter, in bytes, stays: the note in its place would hardly be less. A result is never cut to less either.
const WORTH_LEAVING: usize = 600;

impl Window {
    /// The longest prompt: what the answer leaves, and a twentieth less since sizes are guessed. An answer that claims nearly
    /// all of the window is not believed.
    fn limit(&self) -> i64 {
        let spare = self.context_tokens / 20;
        (self.context_tokens - self.max_output_tokens - spare).max(self.context_tokens / 4)
    }

    /// How short the prompt is made once it is too long: half, so that the other half can fill before the next time.
    fn target(&self) -> i64 {
        self.limit() / 2
    }

    /// How short it is made by cutting the latest results: three quarters, since they are the last that should suffer, and
    /// since what is cut to the limit would have to be cut again on the next turn.
    fn cut_target(&self) -> i64 {
        self.limit() / 4 * 3
    }
}

/// How a tool result appears in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Whole,
    /// Start and end of it, so many bytes together.
    Cut(usize),
    /// Only a note of how long it was.
    Note,
}

/// The tool results of a conversation in the forms in which it fits its window; by turn, and by call in the turn.
pub(crate) struct Room(Vec<Vec<Form>>);

impl Room {
    /// Goes through all requests up to the one that is to be made now. Each is as long as the provider said that the one
    /// before it was, with its answer, and a guess for what has come since; without a provider's figures all is guessed.
    /// `opening` is in bytes: the system prompt and the first message.
    pub fn make(window: Option<Window>, opening: usize, conversation: &[Said<'_>]) -> Self {
        let calls = |said: &Said<'_>| said.stored.turn.answer.tool_uses().count();
        let mut room =
            Self(conversation.iter().map(|said| vec![Form::Whole; calls(said)]).collect());
        let Some(window) = window else { return room };
        let mut size = tokens(opening) + 1;
        for (index, said) in conversation.iter().enumerate() {
            let usage = &said.stored.turn.usage;
            size = if usage.input_tokens > 0 {
                usage.input_tokens.saturating_add(usage.output_tokens)
            } else {
                size.saturating_add(tokens(bytes_of(&said.stored.turn.answer)))
            };
            let results = said
                .stored
                .tool_results
                .iter()
                .map(|result| tokens(result.content.len()))
                .sum::<i64>();
            let then = said.then.map_or(0, |text| tokens(text.len()));
            size = size.saturating_add(results).saturating_add(then);
            if size > window.limit() {
                size = room.shrink(&conversation[..=index], size, &window);
            }
        }
        room
    }

    /// The text that goes to the model for the `nth` call of a turn.
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

    /// Makes a conversation of so many tokens shorter, and says how long it is then.
    fn shrink(&mut self, conversation: &[Said<'_>], mut size: i64, window: &Window) -> i64 {
        let Some(latest) = conversation.iter().rposition(|said| said.stored.wants_tools()) else {
            return size;
        };
        for (index, said) in conversation[..latest].iter().enumerate() {
            for (nth, bytes) in result_bytes(said.stored).enumerate() {
                if size <= window.target() {
                    return size;
                }
                let shown = self.shown(index, nth, bytes);
                if shown > WORTH_LEAVING {
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

    /// Cuts the longest of the latest results, which the model has not used yet, to one length: the longest that will do.
    fn cut(&mut self, latest: usize, stored: &StoredTurn, size: i64, window: &Window) -> i64 {
        let bytes: Vec<usize> = result_bytes(stored).collect();
        let shown: Vec<usize> =
            (0..).zip(&bytes).map(|(nth, bytes)| self.shown(latest, nth, *bytes)).collect();
        let length = common_length(&shown, size - window.cut_target());
        let mut size = size;
        for (nth, shown) in shown.into_iter().enumerate().filter(|(_, shown)| *shown > length) {
            size -= tokens(shown) - tokens(length);
            self.0[latest][nth] = Form::Cut(length);
        }
        size
    }

    fn shown(&self, turn: usize, nth: usize, bytes: usize) -> usize {
        match self.0[turn][nth] {
            Form::Whole => bytes,
            Form::Cut(kept) => kept,
            Form::Note => 0,
        }
    }
}

/// The length to which texts of these lengths must be cut to get rid of so many tokens.
fn common_length(lengths: &[usize], excess: i64) -> usize {
    let excess = usize::try_from(excess).unwrap_or(0).saturating_mul(BYTES_PER_TOKEN);
    let mut longest_first = lengths.to_vec();
    longest_first.sort_unstable_by(|a, b| b.cmp(a));
    let mut sum = 0;
    for (nth, length) in longest_first.iter().enumerate() {
        sum += length;
        let common = sum.saturating_sub(excess) / (nth + 1);
        if longest_first.get(nth + 1).is_none_or(|shorter| common >= *shorter) {
            return common.max(WORTH_LEAVING);
        }
    }
    WORTH_LEAVING
}

/// As many bytes of the start and of the end as were asked for together, or a little less: no character is split.
fn ends(text: &str, bytes: usize) -> (&str, &str) {
    let start = text.floor_char_boundary(bytes / 2);
    let end = text.ceil_char_boundary(text.len() - (bytes / 2).min(text.len() - start));
    (&text[..start], &text[end..])
}

/// How long the results of a turn are, by call.
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
                Arguments::Malformed(text) => text.len(),
            };
            call.name.len() + arguments
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
