//! Token estimates for the size limits of texts. The tokens that a model used are those that its
//! provider reports (`Usage`).

/// The longest assignment, in tokens.
pub const MAX_TASK_TOKENS: i64 = 1_000;
/// The longest system prompt of an agent that a session defines, in tokens.
pub const MAX_PROMPT_TOKENS: i64 = 4_000;

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
