//! The scripted model, asked as a client asks: over HTTP, in the vendors' words.
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
