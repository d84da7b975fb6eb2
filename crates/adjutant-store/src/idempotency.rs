use adjutant_agent::{MAX_IDEMPOTENCY_KEY_CHARS, Refusal, check_idempotency_key};

/// The length of the prefix of a key of a parent task: its id and a slash.
const PARENT_CHARS: usize = 37;

/// Makes a call repeatable: for 24 hours, the same key with the same body gets the first answer.
#[derive(Debug, Clone, Copy)]
pub struct IdempotencyKey<'a> {
    pub key: &'a str,
    /// The request without the key and without nulls, in canonical form; only its digest is stored.
    pub body: &'a [u8],
}

/// The action of a key. Each action has its own key space.
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

/// How a call that makes tasks can be repeated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keyed<'a> {
    pub(crate) action: KeyedAction,
    pub(crate) key: Option<IdempotencyKey<'a>>,
}

impl IdempotencyKey<'_> {
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        check_idempotency_key(self.key)
    }

    /// The keys of a parent task are stored with its id as a prefix.
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
