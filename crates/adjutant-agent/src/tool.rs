use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::words::words;

/// The name of the tool that delegates; no list of tools gives it to an agent.
pub const SUBAGENT: &str = "subagent";
pub const SHARED_CONTEXT: &str = "shared_context";

/// A tool as models see it, and what we have to know before we call it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolDefinition {
    pub name: String,
    pub description: String,
    /// A JSON schema of an object.
    pub input_schema: Value,
    #[serde(default)]
    pub replay: Replay,
}

words! {
    /// What becomes of a call that was under way when its worker was lost.
    #[derive(Default)]
    Replay {
        /// It is made again.
        Safe = "safe",
        /// The model is told that the outcome is unknown, and decides.
        #[default]
        Unsafe = "unsafe",
    }
}
