use adjutant_agent::{ErrorCode, Refusal, TextLimits};
use serde_json::Value;

use super::ChildWait;
use crate::spec::{
    BatchItem, CancelCall, CollectCall, ItemDependency, ReadCall, SpawnCall, StatusCall,
    SubagentAction, SubagentCall, TaskOptions,
};

/// A call of an agent: `subagent` without the actions of orchestrators.
#[derive(Debug, Clone, PartialEq)]
pub enum ChildCall {
    ListAgents,
    /// One child.
    Spawn(Box<BatchItem>),
    /// Many children, all or none.
    Batch(Vec<BatchItem>),
    Status(StatusCall),
    Collect(CollectCall),
    Wait(ChildWait),
    Read(ReadCall),
    Cancel(CancelCall),
}

/// The actions that an agent may use, in the order of its tool.
pub(super) const ACTIONS: [SubagentAction; 8] = [
    SubagentAction::ListAgents,
    SubagentAction::Spawn,
    SubagentAction::Batch,
    SubagentAction::Status,
    SubagentAction::Wait,
    SubagentAction::Collect,
    SubagentAction::Read,
    SubagentAction::Cancel,
];

impl ChildCall {
    /// Parses the arguments as strictly as those of an orchestrator.
    pub fn parse(arguments: &Value, limits: &TextLimits) -> Result<Self, Refusal> {
        match SubagentCall::parse(arguments, limits)? {
            SubagentCall::ListAgents => Ok(Self::ListAgents),
            SubagentCall::Spawn(call) => {
                without_key(call.idempotency_key.as_deref())?;
                without_webhook("webhook", &call.options)?;
                Ok(Self::Spawn(Box::new(as_item(*call))))
            }
            SubagentCall::Batch(call) => {
                without_key(call.idempotency_key.as_deref())?;
                for (place, item) in call.tasks.iter().enumerate() {
                    without_webhook(&format!("tasks[{place}].webhook"), &item.options)?;
                }
                Ok(Self::Batch(call.tasks))
            }
            SubagentCall::Status(call) => Ok(Self::Status(call)),
            SubagentCall::Collect(call) => {
                without_key(call.idempotency_key.as_deref())?;
                Ok(Self::Collect(call))
            }
            SubagentCall::Wait(call) => ChildWait::of(call, arguments).map(Self::Wait),
            SubagentCall::Read(call) => Ok(Self::Read(call)),
            SubagentCall::Cancel(call) => Ok(Self::Cancel(call)),
            other @ (SubagentCall::Define(_)
            | SubagentCall::Continue(_)
            | SubagentCall::Raise(_)) => Err(orchestrators_own(other.action())),
        }
    }
}

fn as_item(call: SpawnCall) -> BatchItem {
    let SpawnCall { agent, task, depends_on, options, idempotency_key: _ } = call;
    let depends_on = depends_on.into_iter().map(ItemDependency::Task).collect();
    BatchItem { name: None, agent, task, depends_on, options }
}

/// Refuses an idempotency key: a call of an agent is executed once in any case.
fn without_key(key: Option<&str>) -> Result<(), Refusal> {
    match key {
        None => Ok(()),
        Some(_) => Err(Refusal::invalid("idempotency_key", "is not a field of this action")),
    }
}

/// Refuses a webhook: the end of a child is reported to its parent only.
fn without_webhook(field: &str, options: &TaskOptions) -> Result<(), Refusal> {
    match options.webhook {
        None => Ok(()),
        Some(_) => Err(Refusal::invalid(field, "is not a field of this action")),
    }
}

fn orchestrators_own(action: SubagentAction) -> Refusal {
    let valid: Vec<&str> = ACTIONS.iter().map(|action| action.as_str()).collect();
    Refusal::new(
        ErrorCode::InvalidAction,
        format!("{action} is for the orchestrator; valid actions are: {}", valid.join(", ")),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_agent_may_not_define_continue_or_bring_a_key() {
        for (arguments, code) in [
            (
                json!({"action": "define", "name": "a", "description": "b", "system_prompt": "c"}),
                "INVALID_ACTION",
            ),
            (json!({"action": "continue", "task_id": "t_01", "task": "x"}), "INVALID_ACTION"),
            (json!({"action": "raise", "task_id": "t_01", "max_cost_usd": 2}), "INVALID_ACTION"),
            (json!({"action": "dance"}), "INVALID_ACTION"),
            (
                json!({"action": "spawn", "agent": "a", "task": "x", "idempotency_key": "k"}),
                "INVALID_ARGUMENT",
            ),
            (
                json!({"action": "collect", "task_id": "t_01", "idempotency_key": "k"}),
                "INVALID_ARGUMENT",
            ),
        ] {
            let refusal = ChildCall::parse(&arguments, &TextLimits::DEFAULT).unwrap_err();
            assert_eq!(refusal.code.as_str(), code, "{arguments}: {refusal}");
        }
    }

    #[test]
    fn an_agent_may_not_bring_a_webhook() {
        let item = json!({"agent": "a", "task": "x", "webhook": {"url": "https://example.com/"}});
        let mut spawn = item.clone();
        spawn["action"] = json!("spawn");
        let batch = json!({"action": "batch", "tasks": [{"agent": "a", "task": "x"}, item]});
        for (arguments, field) in [(spawn, "webhook"), (batch, "tasks[1].webhook")] {
            let refusal = ChildCall::parse(&arguments, &TextLimits::DEFAULT).unwrap_err();
            assert_eq!(refusal.message, format!("{field}: is not a field of this action"));
        }
    }

    #[test]
    fn a_spawn_is_a_batch_of_one() {
        let arguments =
            json!({"action": "spawn", "agent": "a", "task": "x", "depends_on": ["t_07"]});
        let Ok(ChildCall::Spawn(item)) = ChildCall::parse(&arguments, &TextLimits::DEFAULT) else {
            panic!("no spawn")
        };
        assert_eq!((item.agent.as_str(), item.task.as_str()), ("a", "x"));
        assert_eq!(item.depends_on, [ItemDependency::Task(adjutant_agent::TaskNumber(7))]);
    }
}
