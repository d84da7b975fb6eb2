//! Tests the scripted model over HTTP, with the requests that clients of the vendors send.
#![expect(clippy::unwrap_used, reason = "a test says what it expects by failing")]

mod client;

mod anthropic;
mod choosing;
mod errors;
mod faults;
mod many;
mod openai;
mod records;
mod script_files;
