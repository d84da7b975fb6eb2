//! The fields of each action of `subagent`: the parser and the OpenAPI document both follow this
//! list.

use adjutant_agent::ActionForm;

use super::SubagentAction;

macro_rules! agent_fields {
    ($($more:literal),*) => {
        &[
            "tools", "model", "max_turns", "replace", "on_worker_loss", "may_delegate", "missing_tools", "timeout_s",
            "max_input_tokens", "max_output_tokens", "max_cost_usd", "on_budget", "summary_prompt", "extra_body",
            "compaction", $($more),*
        ]
    };
}
macro_rules! task_fields {
    ($($more:literal),*) => {
        &[
            "queue", "priority", "delay_s", "timeout_s", "max_input_tokens", "max_output_tokens", "max_cost_usd",
            "on_budget", "summary_prompt", "label", "metadata", "webhook", "pool", $($more),*
        ]
    };
}

/// A task of a batch.
pub const BATCH_ITEM: ActionForm =
    ActionForm::new(&["agent", "task"], task_fields!("name", "depends_on"));

impl SubagentAction {
    /// The forms of a call; `define` has two.
    pub fn forms(self) -> &'static [ActionForm] {
        match self {
            Self::ListAgents => const { &[ActionForm::new(&[], &[])] },
            Self::Define => {
                const {
                    &[
                        ActionForm::new(&["name", "description", "system_prompt"], agent_fields!()),
                        ActionForm::new(
                            &["name", "extends"],
                            agent_fields!("description", "system_prompt", "system_prompt_append"),
                        ),
                    ]
                }
            }
            Self::Spawn => {
                const {
                    &[ActionForm::new(
                        &["agent", "task"],
                        task_fields!("depends_on", "idempotency_key"),
                    )]
                }
            }
            Self::Status | Self::Cancel => const { &[ActionForm::new(&["task_id"], &[])] },
            Self::Raise => {
                const {
                    &[ActionForm::new(
                        &["task_id"],
                        &["max_input_tokens", "max_output_tokens", "max_cost_usd"],
                    )]
                }
            }
            Self::Collect => const { &[ActionForm::new(&["task_id"], &["idempotency_key"])] },
            Self::Wait => const { &[ActionForm::new(&[], &["task_ids", "mode", "timeout_s"])] },
            Self::Read => const { &[ActionForm::new(&["task_id"], &["offset", "limit"])] },
            Self::Continue => {
                const { &[ActionForm::new(&["task_id", "task"], task_fields!("idempotency_key"))] }
            }
            Self::Batch => const { &[ActionForm::new(&["tasks"], &["queue", "idempotency_key"])] },
        }
    }
}
