use adjutant_agent::Refusal;

use crate::batch::check_name;
use crate::text::refuse_nul_in;

/// Makes a call answerable again: the same key with the same body gets the first answer, for 24 hours.
#[derive(Debug, Clone, Copy)]
pub struct IdempotencyKey<'a> {
    pub key: &'a str,
    /// The request without the key and without nulls, in one fixed form; only its digest is kept.
    pub body: &'a [u8],
}

impl IdempotencyKey<'_> {
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        refuse_nul_in("idempotency_key", self.key)?;
        check_name("idempotency_key", self.key)
    }
}
