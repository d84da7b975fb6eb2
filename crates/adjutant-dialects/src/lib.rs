//! The dialects: each is the tools of one source. A dialect parses the arguments of its tools,
//! spawns tasks and renders answers in the words of its source. It has no queue, no state and no
//! loop of its own: everything is stored by `adjutant-store`.
//!
//! Each dialect is a folder with its tool schemas, parsing, execution, rendering and settings. To
//! add one, add its `mod` line and its line in `dialects!` below, and a folder that has:
//!
//! - a type `Tools` that implements the trait [`Implementation`];
//! - a public type `Settings`, which is deserialized from the dialect's table in the config file
//!   and has a default: [`NoSettings`] if there are none. Their names and types are also in
//!   `Implementation::SETTINGS`.
//!
//! The server and the worker, the config file, MCP and the OpenAPI document find it there.
//!
//! A server calls tools through [`ParsedCall`] and lends a [`Context`]: the store, the operator's
//! policy and a way to watch a session. A worker, whose agents may delegate further, uses
//! [`nested`].

#[macro_use]
mod registry;

mod answer;
mod blocking;
mod context;
mod end_log;
mod error;
mod idempotency;
mod implementation;
pub mod nested;
mod parent;
mod parsed_call;
mod policy;
mod settings;
mod task_handle;
mod task_number;
mod tool_call;
mod wait_loop;

pub mod caliban;
pub mod ecs;
pub mod spec;
pub mod weakincentives;
pub mod xzatoma;

use adjutant_agent::{Refusal, TextLimits, ToolDefinition};
use adjutant_store::{LoggedEnd, Store, TaskView};
use serde_json::Value;

use implementation::{EndLog, Implementation, Rejected};

dialects! {
    /// `subagent` and `shared_context` of the Subagent Tool Specification and the Shared Context
    /// Specification.
    #[default]
    Spec = spec,
    /// `AgentTool` of caliban: a prompt, and the last text of the child.
    Caliban = caliban,
    /// `subagent` and four more tools of ecs_agent's SubagentSystem: sessions in the foreground and
    /// in the background.
    Ecs = ecs,
    /// xzatoma's `subagent`: a labelled task and its summary.
    Xzatoma = xzatoma,
    /// weakincentives' `dispatch_subagent`: a step of a plan.
    Weakincentives = weakincentives,
}

pub use adjutant_store::Error;
pub use answer::Answer;
pub use blocking::PolledTask;
pub use context::{Context, SessionRef, SessionWatch, SessionWatcher, Started};
pub use end_log::log_ends;
pub use parsed_call::{ParsedCall, RefusedCall};
pub use policy::{Policy, SessionLimits};
pub use settings::{
    LONGEST_WAIT, NoSettings, OnClientCancel, Setting, SettingKind, SettingRole, settings,
};
pub use tool_call::ToolCall;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Where a task names, in its metadata, the dialect that it was spawned in.
pub const METADATA_DIALECT: &str = "dialect";

impl std::str::FromStr for Dialect {
    type Err = Refusal;

    fn from_str(word: &str) -> Result<Self, Refusal> {
        Self::ALL.into_iter().find(|dialect| dialect.as_str() == word).ok_or_else(|| {
            let known = Self::ALL.map(Self::as_str).join(", ");
            Refusal::invalid("dialect", format_args!("must be one of: {known}"))
        })
    }
}
