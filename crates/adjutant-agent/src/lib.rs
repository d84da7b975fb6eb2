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
mod depth;
mod earlier;
mod ended_task;
mod envelope;
mod error_code;
mod event;
mod fields;
mod idempotency_key;
mod ids;
mod inheritance;
mod inventory;
mod key;
pub mod moment;
mod network_policy;
mod next;
mod outcome;
mod pending;
mod permissions;
pub mod prompts;
mod request;
#[cfg(test)]
mod sample;
mod shared_context_tool;
mod skill;
mod spec;
mod task_view;
mod tokens;
mod tool;
mod tools_used;
mod turn;
mod view;
mod wait_mode;
mod webhook;
mod window;
mod words;

pub use action_forms::ActionForm;
pub use answer::{Answer, Arguments, Block, StopReason, ToolUse};
pub use budget::{BudgetLimit, BudgetScope, OverBudget};
pub use context_call::{ContextAction, ContextCall, ContextKey, ContextValue};
pub use conversation::Conversation;
pub use definition::{
    AgentDefinition, AgentDraft, DEFAULT_MAX_TURNS_CEILING, DefinitionLimits, LONGEST_S, MAX_USD,
    OnWorkerLoss, nanousd, not_negative, time_limit, usd,
};
pub use delegation::{DEFAULT_MAX_DEPTH, Delegation};
pub use depth::Depth;
pub use earlier::EarlierTask;
pub use ended_task::EndedTask;
pub use error_code::{ErrorCode, Refusal};
pub use event::EventKind;
pub use fields::{Fields, text_in, whole_in};
pub use idempotency_key::{IDEMPOTENCY_KEY, MAX_IDEMPOTENCY_KEY_CHARS, check_idempotency_key};
pub use ids::{LeaseId, SessionId, TaskId, TaskNumber, WorkerId};
pub use inheritance::{Equipment, Equipped, InheritancePolicy, MissingSkill, Parent, ToolConflict};
pub use inventory::{render_for_orchestrator, subagent_lines};
pub use key::{check_agent_name, check_key};
pub use network_policy::{NetworkPolicy, NotPublic, is_public};
pub use next::{Next, give_up, next, partial_result, turns_used};
pub use outcome::{FailureKind, Outcome, OutcomeParts, TaskState};
pub use pending::PendingCall;
pub use permissions::Permissions;
pub use request::{Message, Request, ToolOutput};
pub use shared_context_tool::shared_context_tool;
pub use skill::Skill;
pub use spec::{AgentSpec, Budget, DEFAULT_MAX_TURNS};
pub use task_view::{TaskDetails, TaskView};
pub use tokens::{MAX_PROMPT_TOKENS, MAX_TASK_TOKENS, estimate_tokens};
pub use tool::{Replay, SHARED_CONTEXT, SUBAGENT, ToolDefinition};
pub use tools_used::tools_used;
pub use turn::{Spent, StoredTurn, ToolResult, Turn, TurnKind, Usage};
pub use view::{DEFAULT_PAGE_CHARS, Length, MAX_PAGE_CHARS, Page, SPEC_VIEW, Shown, View};
pub use wait_mode::WaitMode;
pub use webhook::{Answered, DeliveryState, RetryRules, Verdict, Webhook, WebhookEvent};
pub use window::Window;
pub use words::UnknownWord;
