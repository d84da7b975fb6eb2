//! Webhooks: row I1 of the specification.

pub mod deaths;
pub mod deliveries;
pub mod ends;
pub mod requests;
pub mod retries;
pub mod secrets;
pub mod tenants;
