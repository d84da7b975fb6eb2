//! One integration binary over real processes and a real PostgreSQL. Each test has a database of
//! its own.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test says what it expects by failing"
)]
#![expect(clippy::duplicate_mod, reason = "every example includes the same module setup")]

mod cli;
mod dialects;
mod faults;
mod mutants;
mod real;
mod server;
mod store;
mod support;
mod worker;
