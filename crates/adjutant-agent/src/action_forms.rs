//! Which fields the actions of our tools have: what is read, and what the documents say.

use crate::{ContextAction, SubagentAction};

/// One way to call an action: the fields that it needs, and those that it may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActionForm {
    pub needed: &'static [&'static str],
    pub optional: &'static [&'static str],
}

const fn form(needed: &'static [&'static str], optional: &'static [&'static str]) -> ActionForm {
    ActionForm { needed, optional }
}

macro_rules! agent_fields {
    ($($more:literal),*) => {
        &[
            "tools", "model", "max_turns", "replace", "on_worker_loss", "may_delegate", "timeout_s", "max_input_tokens",
            "max_output_tokens", "max_cost_usd", "summary_prompt", $($more),*
        ]
    };
}
macro_rules! task_fields {
    ($($more:literal),*) => {
        &[
            "queue", "priority", "delay_s", "timeout_s", "max_input_tokens", "max_output_tokens", "max_cost_usd",
            "summary_prompt", "label", "metadata", "webhook", $($more),*
        ]
    };
}

/// A task of a batch.
pub const BATCH_ITEM: ActionForm = form(&["agent", "task"], task_fields!("name", "depends_on"));

impl SubagentAction {
    /// The ways to call it; `define` has two.
    pub fn forms(self) -> &'static [ActionForm] {
        match self {
            Self::ListAgents => const { &[form(&[], &[])] },
            Self::Define => {
                const {
                    &[
                        form(&["name", "description", "system_prompt"], agent_fields!()),
                        form(
                            &["name", "extends"],
                            agent_fields!("description", "system_prompt", "system_prompt_append"),
                        ),
                    ]
                }
            }
            Self::Spawn => {
                const { &[form(&["agent", "task"], task_fields!("depends_on", "idempotency_key"))] }
            }
            Self::Status | Self::Cancel => const { &[form(&["task_id"], &[])] },
            Self::Collect => const { &[form(&["task_id"], &["idempotency_key"])] },
            Self::Wait => const { &[form(&[], &["task_ids", "mode", "timeout_s"])] },
            Self::Read => const { &[form(&["task_id"], &["offset", "limit"])] },
            Self::Continue => const { &[form(&["task_id", "task"], task_fields!("idempotency_key"))] },
            Self::Batch => const { &[form(&["tasks"], &["queue", "idempotency_key"])] },
        }
    }
}

impl ContextAction {
    pub fn forms(self) -> &'static [ActionForm] {
        match self {
            Self::ListKeys => const { &[form(&[], &[])] },
            Self::Read | Self::Delete => const { &[form(&["key"], &[])] },
            Self::Write => const { &[form(&["key", "value"], &[])] },
            Self::ReadBatch => const { &[form(&["keys"], &[])] },
            Self::ReadHistory => const { &[form(&["key"], &["limit"])] },
            Self::Snapshot | Self::ReadSnapshot => const { &[form(&["label"], &[])] },
        }
    }
}
