//! The types that all crates share, and the decisions of the agent loop. Nothing here does IO.
//!
//! [`next`] is the loop: a pure function from the stored turns to the next step. The worker carries
//! the step out, stores its result and calls [`next`] again, so that a restart after a crash is the
//! same code path as the first start.
//!
//! - **a task**: `ids`, `outcome`, `task_view`, `retrying`, `ended_task`, `earlier_task`, `event`,
//!   `wait_mode`
//! - **an agent**: `definition` (checked input), `agent_config` (what a task runs with),
//!   `inheritance`, `skill`, `permissions`, `grants`, `delegation`, `budget`,
//!   `extra_body`
//! - **the loop**: `next`, `conversation`, `transcript`, `compaction`, `context_window`, `request`,
//!   `answer`, `turn`, `tool`, `pending_call`, `tools_used`, `envelope`
//! - **texts for models**: `prompts`, `prompt_placeholders`, `shared_context_tool`
//! - **tool arguments**: `fields`, `action_forms`, `context_call`, `names`, `idempotency_key`,
//!   `tokens`
//! - **answers to clients**: `error_code`, `truncation`, `timestamp`, `word_enum`
//! - **webhooks**: `webhook`, `network_policy`

mod action_forms;
mod agent_config;
mod answer;
mod budget;
mod compaction;
mod context_call;
mod context_window;
mod conversation;
mod definition;
mod delegation;
mod depth;
mod earlier_task;
mod ended_task;
mod envelope;
mod error_code;
mod event;
mod extra_body;
mod fields;
mod grants;
mod idempotency_key;
mod ids;
mod inheritance;
mod names;
mod network_policy;
mod next;
mod outcome;
mod pending_call;
mod permissions;
mod prompt_placeholders;
pub mod prompts;
mod request;
mod retrying;
mod shared_context_tool;
mod skill;
mod task_view;
#[cfg(test)]
mod test_turns;
pub mod timestamp;
mod tokens;
mod tool;
mod tools_used;
mod transcript;
mod truncation;
mod turn;
mod wait_mode;
mod webhook;
mod word_enum;

pub use action_forms::ActionForm;
pub use agent_config::{AgentConfig, DEFAULT_MAX_TURNS};
pub use answer::{Answer, Arguments, Block, StopReason, ToolUse, WireFields};
pub use budget::{Budget, BudgetLimit, BudgetScope, OnBudget, OverBudget};
pub use compaction::Compaction;
pub use context_call::{ContextAction, ContextCall, ContextKey, ContextValue};
pub use context_window::ContextWindow;
pub use conversation::Conversation;
pub use definition::{
    AgentDefinition, AgentDraft, DEFAULT_MAX_TURNS_CEILING, DefinitionLimits, MAX_SECONDS, MAX_USD,
    MissingTools, OnWorkerLoss, nanousd, not_negative, time_limit, usd,
};
pub use delegation::{DEFAULT_MAX_DEPTH, DEFAULT_MAX_TREE_TASKS, Delegation};
pub use depth::Depth;
pub use earlier_task::EarlierTask;
pub use ended_task::EndedTask;
pub use error_code::{ErrorCode, Refusal};
pub use event::EventKind;
pub use extra_body::{DefinedBy, MAX_BODY_WORD, SESSION_BODY_FIELDS, is_reserved_field};
pub use fields::{Fields, integer_in, text_in};
pub use grants::{Grants, no_tool};
pub use idempotency_key::{IDEMPOTENCY_KEY, MAX_IDEMPOTENCY_KEY_CHARS, check_idempotency_key};
pub use ids::{LeaseId, SessionId, TaskId, TaskNumber, WorkerId};
pub use inheritance::{
    AgentExtras, InheritancePolicy, MissingSkill, OrchestratorConfig, ResolvedAgent, ToolConflict,
};
pub use names::{check_agent_name, check_key, check_pool};
pub use network_policy::{NetworkPolicy, NotPublic, is_public};
pub use next::{Next, give_up, next, partial_result, turns_used};
pub use outcome::{FailureKind, Outcome, OutcomeParts, TaskState};
pub use pending_call::{MAX_TOOL_CALLS, PendingCall};
pub use permissions::Permissions;
pub use prompt_placeholders::{fill_orchestrator_prompt, subagent_lines};
pub use request::{Message, Request, ToolOutput};
pub use retrying::Retrying;
pub use shared_context_tool::shared_context_tool;
pub use skill::Skill;
pub use task_view::{TaskDetails, TaskView, Why};
pub use tokens::{TextLimits, estimate_tokens, longest};
pub use tool::{Replay, SHARED_CONTEXT, SUBAGENT, ToolDefinition};
pub use tools_used::tools_used;
pub use truncation::{
    DEFAULT_PAGE_CHARS, Length, MAX_PAGE_CHARS, Page, SPEC_TRUNCATION, TruncatedText, Truncation,
};
pub use turn::{BreakReason, Spent, StoredTurn, ToolResult, Turn, TurnKind, Usage};
pub use wait_mode::WaitMode;
pub use webhook::{
    DeliveryDecision, DeliveryState, PostResult, RetryPolicy, Webhook, WebhookEvent,
};
pub use word_enum::UnknownWord;
