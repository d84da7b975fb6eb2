//! `[limits]`: how much sessions and tasks may use.

use std::time::Duration;

use adjutant_agent::{DEFAULT_MAX_DEPTH, DEFAULT_MAX_TREE_TASKS, TextLimits};
use adjutant_store::DEFAULT_CONTEXT_VERSIONS;
use adjutant_worker::{DEFAULT_MODEL_PATIENCE, DEFAULT_TOOL_PATIENCE};
use serde::{Deserialize, Serialize};

use super::assemble::{deserialize, section};
use super::dialects;
use super::problem::Findings;
use super::schema::{Kind, Setting, at_least, settings};
use super::tree::Table;

/// A limit of [`TextLimits`].
const TOKENS: Kind = Kind::Integer { min: 1, max: TextLimits::HIGHEST };

pub const SETTINGS: &[Setting] = settings! {
    "limits.cap" => Kind::Integer { min: 0, max: 10_000 },
    "limits.session_max_active" => at_least(1),
    "limits.session_max_queued" => at_least(1),
    "limits.max_turns_ceiling" => Kind::Integer { min: 1, max: 1000 },
    "limits.max_depth" => Kind::Integer { min: 1, max: 10 },
    "limits.max_tree_tasks" => Kind::Integer { min: 1, max: 10_000 },
    "limits.define_may_delegate" => Kind::Boolean,
    "limits.max_task_tokens" => TOKENS,
    "limits.max_value_tokens" => TOKENS,
    "limits.max_store_tokens" => TOKENS,
    "limits.max_prompt_tokens" => TOKENS,
    "limits.context_versions" => Kind::Integer { min: 1, max: 10_000 },
    "limits.task_timeout_s" => Kind::PositiveNumber,
    "limits.task_timeout_max_s" => Kind::PositiveNumber,
    "limits.model_patience_s" => Kind::PositiveNumber,
    "limits.tool_patience_s" => Kind::Number { min: 0.0, max: 86_400.0 },
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// The fleet-wide cap of a new database.
    pub cap: i32,
    #[serde(skip)]
    cap_is_given: bool,
    pub session_max_active: i32,
    pub session_max_queued: i32,
    pub max_turns_ceiling: i32,
    /// How many levels of tasks there may be. Tasks of the orchestrator are level 1.
    pub max_depth: i16,
    /// The most tasks of a tree: its root and everything that was ever spawned below it.
    pub max_tree_tasks: i32,
    /// Whether sessions may define agents that delegate.
    pub define_may_delegate: bool,
    /// The longest assignment of the dialect `spec`, in tokens.
    pub max_task_tokens: i64,
    /// The longest value of a shared context.
    pub max_value_tokens: i64,
    /// All values of a shared context together.
    pub max_store_tokens: i64,
    /// The longest prompt that a session brings: its own, and those of agents that it defines.
    pub max_prompt_tokens: i64,
    /// How many changes of each key of a shared context are kept.
    pub context_versions: i32,
    /// The timeout of tasks for which neither the spawn nor the agent sets one.
    pub task_timeout_s: Option<f64>,
    pub task_timeout_max_s: Option<f64>,
    /// How long a task waits for a model whose provider refuses the key.
    pub model_patience_s: f64,
    /// How long tasks wait for tools that no worker has, before they fail.
    pub tool_patience_s: f64,
}

impl Limits {
    pub fn model_patience(&self) -> Duration {
        Duration::try_from_secs_f64(self.model_patience_s).unwrap_or(DEFAULT_MODEL_PATIENCE)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            cap: 5,
            cap_is_given: false,
            session_max_active: 5,
            session_max_queued: 1000,
            max_turns_ceiling: 25,
            max_depth: DEFAULT_MAX_DEPTH,
            max_tree_tasks: DEFAULT_MAX_TREE_TASKS,
            define_may_delegate: false,
            max_task_tokens: TextLimits::DEFAULT.task,
            max_value_tokens: TextLimits::DEFAULT.value,
            max_store_tokens: TextLimits::DEFAULT.store,
            max_prompt_tokens: TextLimits::DEFAULT.prompt,
            context_versions: DEFAULT_CONTEXT_VERSIONS,
            task_timeout_s: None,
            task_timeout_max_s: None,
            model_patience_s: DEFAULT_MODEL_PATIENCE.as_secs_f64(),
            tool_patience_s: DEFAULT_TOOL_PATIENCE.as_secs_f64(),
        }
    }
}

impl Limits {
    /// The limits of the texts of sessions, for servers and workers.
    pub fn texts(&self) -> TextLimits {
        TextLimits {
            task: self.max_task_tokens,
            value: self.max_value_tokens,
            store: self.max_store_tokens,
            prompt: self.max_prompt_tokens,
        }
    }

    /// The cap, if the config sets it.
    pub fn given_cap(&self) -> Option<i32> {
        self.cap_is_given.then_some(self.cap)
    }
}

pub fn read(table: &Table, findings: &mut Findings) -> Limits {
    let mut limits: Limits = deserialize(table, "limits", findings).unwrap_or_default();
    let setting = |name: &str| section(table, "limits")?.get(name);
    if let Some(cap) = dialects::cap(table, findings).filter(|_| setting("cap").is_none()) {
        limits.cap = cap;
        limits.cap_is_given = true;
    }
    limits.cap_is_given |= setting("cap").is_some();
    if let (Some(usual), Some(most), Some(node)) =
        (limits.task_timeout_s, limits.task_timeout_max_s, setting("task_timeout_s"))
        && usual > most
    {
        let text = format!("must be at most limits.task_timeout_max_s ({most}), not {usual}");
        findings.error(&node.location, "limits.task_timeout_s", text);
    }
    limits
}
