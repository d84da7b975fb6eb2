//! Webhooks: contract row I1.

mod callers;
mod deaths;
mod ends;
mod receiver;
mod retries;
mod secrets;
mod stage;
mod tenants;
