//! A scripted model server: both wires, with and without streaming, and with injected faults.
//!
//! The answer to a request depends only on the request and on how often its turn was requested
//! before. The turn is the number of answers that the request contains. So a loop that is resumed
//! on another worker, with its stored conversation, finds its place in the script, however many
//! loops run at once.
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
mod connections;
mod filled_reply;
mod http;
mod model_request;
mod openai;
mod read_script;
mod recorded_request;
mod recorder;
mod response_plan;
mod returned_fields;
mod rule_selection;
mod script;
mod script_format;
mod server;
mod vendor_checks;

pub use answer::{
    Answer, Answers, CallArguments, ErrorText, Fault, Headers, Pace, Reply, ToolCall, Usage, empty,
    fault, raw_tool_call, refusal, status, text, tool_call,
};
pub use model_request::Wire;
pub use read_script::ScriptError;
pub use recorded_request::{
    Conversation, End, Keep, OnEnd, Outline, RecordedRequest, RequestCounts, TurnCount,
};
pub use script::{Script, When};
pub use server::{Options, ScriptServer};

/// A commented script to start from.
pub const EXAMPLE: &str = include_str!("example.toml");
