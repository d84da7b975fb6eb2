//! The vocabulary of delegation: what a task is called, which states it has, how it ends, what can be refused. And the agent
//! loop as a decision: [`next`] says from what is stored what to do now, and whoever drives it does that and asks again.
//!
//! Nothing here does IO. The other crates speak in these words; each of them has one meaning everywhere.

mod action_forms;
mod answer;
mod budget;
mod context_call;
mod conversation;
mod definition;
mod delegation;
pub mod dialects;
mod earlier;
mod envelope;
mod error_code;
mod event;
mod fields;
mod ids;
mod inheritance;
mod inventory;
mod key;
mod next;
mod outcome;
mod pending;
mod permissions;
pub mod prompts;
mod reach;
mod request;
#[cfg(test)]
mod sample;
mod skill;
mod spec;
mod subagent_call;
mod tokens;
mod tool;
mod tool_schemas;
mod tools_used;
mod turn;
mod view;
mod webhook;
mod window;
mod words;

pub use action_forms::{ActionForm, BATCH_ITEM};
pub use answer::{Answer, Arguments, Block, StopReason, ToolUse};
pub use budget::{BudgetLimit, BudgetScope, OverBudget};
pub use context_call::{ContextAction, ContextCall, ContextKey, ContextValue};
pub use conversation::Conversation;
pub use definition::{
    AgentDefinition, AgentDraft, DEFAULT_MAX_TURNS_CEILING, DefinitionLimits, LONGEST_S, MAX_USD,
    OnWorkerLoss, nanousd, usd,
};
pub use delegation::{
    Child, ChildCall, ChildWait, DEFAULT_MAX_DEPTH, Delegation, DelegationForm, Waited, delegation_tool,
};
pub use earlier::EarlierTask;
pub use error_code::{ErrorCode, Refusal};
pub use event::EventKind;
pub use fields::{Fields, text_in, whole_in};
pub use ids::{LeaseId, SessionId, TaskId, TaskNumber, WorkerId};
pub use inheritance::{Equipment, Equipped, InheritancePolicy, MissingSkill, Parent, ToolConflict};
pub use inventory::subagent_lines;
pub use key::{check_agent_name, check_key};
pub use next::{Next, give_up, next, partial_result, turns_used};
pub use outcome::{FailureKind, Outcome, TaskState};
pub use pending::PendingCall;
pub use permissions::Permissions;
pub use reach::{NotPublic, Reach, is_public};
pub use request::{Message, Request, ToolOutput};
pub use skill::Skill;
pub use spec::{AgentSpec, Budget, DEFAULT_MAX_TURNS};
pub use subagent_call::{
    BatchCall, BatchItem, CancelCall, CollectCall, ContinueCall, DefineCall, ItemDependency, LONGEST_WAIT,
    MAX_IDEMPOTENCY_KEY_CHARS, ReadCall, SpawnCall, StatusCall, SubagentAction, SubagentCall, TaskOptions,
    WaitCall, WaitMode, check_idempotency_key, request_body,
};
pub use tokens::{MAX_PROMPT_TOKENS, MAX_TASK_TOKENS, estimate_tokens};
pub use tool::{Replay, ToolDefinition};
pub use tool_schemas::{SHARED_CONTEXT, SUBAGENT, shared_context_tool, subagent_tool};
pub use tools_used::tools_used;
pub use turn::{Spent, StoredTurn, ToolResult, Turn, TurnKind, Usage};
pub use view::{DEFAULT_PAGE_CHARS, Length, MAX_PAGE_CHARS, Page, SPEC_VIEW, Shown, View};
pub use webhook::{Answered, RetryRules, Verdict, Webhook, WebhookEvent};
pub use window::Window;
pub use words::UnknownWord;
