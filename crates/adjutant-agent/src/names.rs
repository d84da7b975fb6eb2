use crate::{ErrorCode, Refusal};

const MAX_CHARS: usize = MAX_NAME_CHARS;

/// The longest name of an agent, a pool or a tool.
pub(crate) const MAX_NAME_CHARS: usize = 64;

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

/// Refuses an invalid name of a pool; `field` is named in the message.
pub fn check_pool(field: &str, name: &str) -> Result<(), Refusal> {
    if (1..=MAX_CHARS).contains(&name.len()) && name.chars().all(is_pool_part) {
        return Ok(());
    }
    let form = format_args!(
        "must be 1 to {MAX_CHARS} characters of a-z, A-Z, 0-9, _, - and .; got {}",
        quoted(name)
    );
    Err(Refusal::invalid(field, form))
}

/// Whether a pool's name may have this character.
pub(crate) fn is_pool_part(character: char) -> bool {
    is_tool_part(character) || character == '.'
}

/// Whether a tool's name may have this character: those that every vendor accepts.
pub(crate) fn is_tool_part(character: char) -> bool {
    character.is_ascii_alphanumeric() || "_-".contains(character)
}

/// Whether an agent's name may have this character.
pub(crate) fn is_agent_part(character: char) -> bool {
    is_tool_part(character) && !character.is_ascii_uppercase()
}

/// Checks the whole text, including a newline at its end.
fn is_name(text: &str, signs: &str) -> bool {
    (1..=MAX_CHARS).contains(&text.len())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || signs.contains(c))
}

/// A prefix of the text, in quotes and on one line.
pub(crate) fn quoted(text: &str) -> String {
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
    fn a_pool_has_a_name_that_fits_into_a_command_line() {
        for name in ["default", "GPU", "a100.large_2-b", &"x".repeat(MAX_CHARS)] {
            assert_eq!(check_pool("pool", name), Ok(()));
        }
        for wrong in ["", "a b", "a\n", "ä", "a/b", "=a", &"x".repeat(MAX_CHARS + 1)] {
            let refusal = check_pool("pool", wrong).unwrap_err();
            assert!(refusal.message.starts_with("pool: must be"), "{wrong:?}: {refusal}");
        }
    }

    #[test]
    fn a_refusal_quotes_no_more_than_it_takes_to_recognise_the_name() {
        let refusal = check_key(&"é".repeat(10_000)).unwrap_err();
        assert!(refusal.message.chars().count() < 200, "{}", refusal.message);
    }
}
