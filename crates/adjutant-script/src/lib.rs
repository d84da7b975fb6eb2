//! A model server that plays a script: both wires, streaming or not, and everything that can go wrong.
//!
//! Which answer a request gets depends on the request and on how often its turn was asked for, and on nothing else: the
//! turn is the number of answers that the request already has in it. So a loop that stops and goes on elsewhere, with the
//! conversation that it stored, finds its place in the script, however many others play at the same time.
//!
//! ```no_run
//! use adjutant_script::{Script, ScriptServer, When, status, text, tool_call};
//! use serde_json::json;
//!
//! # async fn example() -> std::io::Result<()> {
//! let server = ScriptServer::start(
//!     Script::new()
//!         .on(When::assignment("slow checkout"))
//!         .then(tool_call("fetch", json!({"url": "https://example.com/log"})))
//!         .then([status(429).retry_after(3.0), text("It is the new release.")]),
//! )
//! .await?;
//! // ... a client talks to server.openai_base_url() or server.anthropic_base_url() ...
//! server.assert_nothing_answered_twice();
//! server.finish();
//! # Ok(())
//! # }
//! ```

mod answer;
mod anthropic;
mod asked;
mod choose;
mod form;
mod http;
mod line;
mod openai;
mod play;
mod read;
mod record;
mod records;
mod refuse;
mod said;
mod script;
mod server;

pub use answer::{
    Answer, Answers, Call, CallArguments, ErrorText, Fault, Headers, Pace, Reply, Usage, empty,
    fault, raw_tool_call, refusal, status, text, tool_call,
};
pub use asked::Wire;
pub use read::ScriptError;
pub use record::{Conversation, End, Keep, OnEnd, Outline, Recorded, Tally, TurnCount};
pub use script::{Script, When};
pub use server::{Options, ScriptServer};

/// A commented script to start from.
pub const EXAMPLE: &str = include_str!("example.toml");
