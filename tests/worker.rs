//! Worker processes that run agents: on a scripted model that speaks both wires, with real tools.
//! Workers die and leave, models refuse and hang, callers cancel. Whatever happens, no model is
//! called again for an answer that was stored.

pub mod agent_files;
pub mod broken_calls;
pub mod budgets;
pub mod closed_models;
pub mod continuations;
pub mod deaths;
pub mod delegation;
pub mod drains;
pub mod embedding;
pub mod fairness;
pub mod fallbacks;
pub mod final_answers;
pub mod grants;
pub mod interruptions;
pub mod logs;
pub mod long_conversations;
pub mod model_failures;
pub mod model_limits;
pub mod paused_tasks;
pub mod permissions;
pub mod rate_limits;
pub mod reasoning;
pub mod requirements;
pub mod telemetry;
pub mod text_limits;
pub mod tool_calls;
pub mod webhooks;
