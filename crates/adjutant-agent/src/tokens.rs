//! Token estimates for the size limits of texts. The tokens that a model used are those that its
//! provider reports (`Usage`).

use crate::{ErrorCode, Refusal};

/// The longest texts that sessions may store, in tokens. The operator sets them in the config:
/// `limits.max_task_tokens` and so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextLimits {
    /// Of an assignment.
    pub task: i64,
    /// Of one value of the shared context.
    pub value: i64,
    /// Of all values of the shared context of a session together.
    pub store: i64,
    /// Of a system prompt that a session brings.
    pub prompt: i64,
}

impl TextLimits {
    /// Those of the Subagent Tool Specification and the Shared Context Specification.
    pub const DEFAULT: Self = Self { task: 1_000, value: 1_000, store: 10_000, prompt: 4_000 };

    /// The highest limit that an operator may set.
    pub const HIGHEST: i64 = 100_000;

    /// Refuses an assignment that is too long, and says how to pass it instead.
    pub fn check_task(&self, task: &str) -> Result<(), Refusal> {
        let Some(size) = Excess::of(task, self.task) else { return Ok(()) };
        let message = format!(
            "task: {size} (limits.max_task_tokens). Pass long input through the shared context, to an agent that has \
             the tool shared_context: write it in several notes of up to {} characters, for example under the keys \
             input_1 and input_2, and name the keys in the task: \"Read the keys input_1 and input_2 of the shared \
             context, then ...\". All notes together have at most {} tokens (limits.max_store_tokens)",
            longest(self.value),
            self.store
        );
        Err(Refusal::new(ErrorCode::TaskTooLarge, message))
    }

    /// Refuses a value of the shared context that is too long.
    pub fn check_value(&self, value: &str) -> Result<(), Refusal> {
        let Some(size) = Excess::of(value, self.value) else { return Ok(()) };
        let message = format!(
            "value: {size} (limits.max_value_tokens). Shorten it, or divide it among several keys"
        );
        Err(Refusal::new(ErrorCode::ValueTooLarge, message))
    }

    /// Refuses a prompt in `field` that is too long.
    pub fn check_prompt(&self, field: &str, prompt: &str) -> Result<(), Refusal> {
        let Some(size) = Excess::of(prompt, self.prompt) else { return Ok(()) };
        let message = format!("{field}: {size} (limits.max_prompt_tokens)");
        Err(Refusal::new(ErrorCode::PromptTooLarge, message))
    }
}

impl Default for TextLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The most characters that a text of so many tokens may have.
pub fn longest(tokens: i64) -> i64 {
    tokens.saturating_mul(4).saturating_add(3)
}

/// A text that is longer than its limit.
struct Excess {
    chars: usize,
    tokens: i64,
    limit: i64,
}

impl Excess {
    fn of(text: &str, limit: i64) -> Option<Self> {
        let tokens = estimate_tokens(text);
        (tokens > limit).then(|| Self { chars: text.chars().count(), tokens, limit })
    }
}

impl std::fmt::Display for Excess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { chars, tokens, limit } = self;
        write!(
            f,
            "has {chars} characters, which are {tokens} tokens; the limit is {limit} tokens, {} characters",
            longest(*limit)
        )
    }
}

/// Estimates the tokens of a text: a quarter of its characters, rounded down, and at least 1.
pub fn estimate_tokens(text: &str) -> i64 {
    i64::try_from(text.chars().count() / 4).unwrap_or(i64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_counted_as_the_sources_tests_pin_it() {
        for (chars, tokens) in [
            (0, 1),
            (1, 1),
            (7, 1),
            (8, 2),
            (4_003, 1_000),
            (4_004, 1_001),
            (16_003, 4_000),
            (16_004, 4_001),
        ] {
            assert_eq!(estimate_tokens(&"x".repeat(chars)), tokens, "{chars} characters");
            assert_eq!(
                estimate_tokens(&"é".repeat(chars)),
                tokens,
                "{chars} characters, not bytes"
            );
        }
    }
}
