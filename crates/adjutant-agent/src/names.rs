use crate::{ErrorCode, Refusal};

const MAX_CHARS: usize = 64;

/// Refuses an invalid key of the shared context. Unlike an agent's name, a key has no hyphens.
pub fn check_key(key: &str) -> Result<(), Refusal> {
    if is_name(key, "_") {
        return Ok(());
    }
    Err(Refusal::new(
        ErrorCode::InvalidKey,
        format!("key: must be 1 to {MAX_CHARS} characters of a-z, 0-9 and _; got {}", quoted(key)),
    ))
}

/// Refuses an invalid name of an agent.
pub fn check_agent_name(name: &str) -> Result<(), Refusal> {
    if is_name(name, "_-") {
        return Ok(());
    }
    Err(Refusal::new(
        ErrorCode::InvalidAgentName,
        format!(
            "name: must be 1 to {MAX_CHARS} characters of a-z, 0-9, _ and -; got {}",
            quoted(name)
        ),
    ))
}

/// Checks the whole text, including a newline at its end.
fn is_name(text: &str, signs: &str) -> bool {
    (1..=MAX_CHARS).contains(&text.len())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || signs.contains(c))
}

/// A prefix of the text, in quotes and on one line.
fn quoted(text: &str) -> String {
    let mut start: String = text.chars().take(MAX_CHARS + 1).collect();
    if start.len() < text.len() {
        start.push('…');
    }
    format!("{start:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_agent_names_differ_in_the_hyphen() {
        let longest = "x".repeat(MAX_CHARS);
        for name in ["a", "0", "_", "problem_summary", &longest] {
            assert_eq!(check_key(name), Ok(()));
            assert_eq!(check_agent_name(name), Ok(()));
        }
        assert_eq!(check_agent_name("code-reviewer"), Ok(()));
        assert_eq!(check_key("code-reviewer").unwrap_err().code, ErrorCode::InvalidKey);

        let too_long = "x".repeat(MAX_CHARS + 1);
        for wrong in ["", "A", "a b", "a\n", "\na", "a.b", "a/b", "ä", "a\0", &too_long] {
            assert_eq!(check_key(wrong).unwrap_err().code, ErrorCode::InvalidKey, "{wrong:?}");
            assert_eq!(
                check_agent_name(wrong).unwrap_err().code,
                ErrorCode::InvalidAgentName,
                "{wrong:?}"
            );
        }
    }

    #[test]
    fn a_refusal_quotes_no_more_than_it_takes_to_recognise_the_name() {
        let refusal = check_key(&"é".repeat(10_000)).unwrap_err();
        assert!(refusal.message.chars().count() < 200, "{}", refusal.message);
    }
}
