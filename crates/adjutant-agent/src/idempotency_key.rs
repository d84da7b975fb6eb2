use crate::Refusal;

/// The most characters of an idempotency key.
pub const MAX_IDEMPOTENCY_KEY_CHARS: usize = 300;

/// The argument of a tool call that holds the key.
pub const IDEMPOTENCY_KEY: &str = "idempotency_key";

/// Refuses a key that is empty, too long or cannot be stored.
pub fn check_idempotency_key(key: &str) -> Result<(), Refusal> {
    if key.contains('\0') {
        return Err(Refusal::invalid(IDEMPOTENCY_KEY, "must not contain a NUL character"));
    }
    match key.chars().count() {
        1..=MAX_IDEMPOTENCY_KEY_CHARS => Ok(()),
        _ => Err(Refusal::invalid(
            IDEMPOTENCY_KEY,
            format_args!("must have 1 to {MAX_IDEMPOTENCY_KEY_CHARS} characters"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_1_to_300_characters() {
        assert_eq!(check_idempotency_key("é"), Ok(()));
        assert_eq!(check_idempotency_key(&"é".repeat(300)), Ok(()));
        for wrong in ["", "a\0", &"é".repeat(301)] {
            assert!(
                check_idempotency_key(wrong).unwrap_err().message.starts_with("idempotency_key: ")
            );
        }
    }
}
