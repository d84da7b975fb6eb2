use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::word_enum::word_enum;

/// The name of the tool that delegates. An agent's list of tools cannot grant it.
pub const SUBAGENT: &str = "subagent";
pub const SHARED_CONTEXT: &str = "shared_context";

/// A tool's definition for models, and whether a call may be repeated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolDefinition {
    pub name: String,
    pub description: String,
    /// A JSON schema of type `object`.
    pub input_schema: Value,
    #[serde(default)]
    pub replay: Replay,
}

word_enum! {
    /// What happens to a call whose worker was lost before the result was stored.
    #[derive(Default)]
    Replay {
        /// It is made again.
        Safe = "safe",
        /// It is not made again; its result says that the outcome is unknown.
        #[default]
        Unsafe = "unsafe",
    }
}
