use adjutant_agent::{MAX_IDEMPOTENCY_KEY_CHARS, Refusal, check_idempotency_key};

/// What stands before the key of a task that spawns children: its id and a slash.
const PARENT_CHARS: usize = 37;

/// Makes a call answerable again: the same key with the same body gets the first answer, for 24 hours.
#[derive(Debug, Clone, Copy)]
pub struct IdempotencyKey<'a> {
    pub key: &'a str,
    /// The request without the key and without nulls, in one fixed form; only its digest is kept.
    pub body: &'a [u8],
}

/// What a key is for: one that came with an action says nothing about the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyedAction {
    Spawn,
    Batch,
    Continue,
    Retry,
}

impl KeyedAction {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Spawn => "spawn",
            Self::Batch => "batch",
            Self::Continue => "continue",
            Self::Retry => "retry",
        }
    }
}

/// How a call that makes tasks can be asked again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keyed<'a> {
    pub(crate) action: KeyedAction,
    pub(crate) key: Option<IdempotencyKey<'a>>,
}

impl IdempotencyKey<'_> {
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        check_idempotency_key(self.key)
    }

    /// A parent's keys are its own, and stored behind its id.
    pub(crate) fn check_for_children(&self) -> Result<(), Refusal> {
        let longest = MAX_IDEMPOTENCY_KEY_CHARS - PARENT_CHARS;
        if self.key.chars().count() > longest {
            return Err(Refusal::invalid(
                "idempotency_key",
                format_args!("must have 1 to {longest} characters"),
            ));
        }
        self.check()
    }
}
