//! Agents of this dialect that delegate further: one call spawns a child, waits for it and returns
//! its summary.

use adjutant_agent::{Delegation, EndedTask, Refusal, TaskId, ToolDefinition};
use adjutant_store::{NewDelegation, NewTask, QUOTA_EXCEEDED};
use serde_json::Value;

use super::call::{Call, Wrong};
use super::events::Event;
use super::{AGENT, answers, tool};
use crate::nested::{BlockingTool, NestedParent, PlannedChild};
use crate::{Answer, Result};

pub(super) struct NestedTool;

impl BlockingTool for NestedTool {
    fn tool(&self) -> ToolDefinition {
        tool::nested_tool()
    }

    fn spawns(&self, arguments: &Value) -> bool {
        matches!(Call::parse(arguments), Ok(Call::New(_)))
    }

    fn plan(&self, arguments: &Value, parent: &NestedParent<'_>) -> Result<PlannedChild, Answer> {
        let label = arguments["label"].as_str();
        let parsed = Call::parse(arguments);
        if let Delegation::TooDeep { depth, max_depth } = parent.delegation {
            // Without a valid call, the label is arbitrary text of the model, which is not logged.
            let label = if let Ok(Call::New(new)) = &parsed { &new.label } else { "" };
            log(&Event::DepthLimit { current_depth: depth, max_depth }, label, parent);
        }
        if let Some(why) = parent.delegation.refusal() {
            return Err(answers::refused(&Wrong(why), label));
        }
        let new = match parsed {
            Ok(Call::New(new)) => new,
            Ok(Call::WaitAgain(_)) => {
                let why = "Invalid input: task_id: there is no earlier call to wait for".to_owned();
                return Err(answers::refused(&Wrong(why), label));
            }
            Err(wrong) => return Err(answers::refused(&wrong, label)),
        };
        let refused = |wrong: Wrong| answers::refused(&wrong, Some(&new.label));
        let settings = &parent.settings.xzatoma;
        let tools: Vec<String> = parent.agent.allowed_tools().map(str::to_owned).collect();
        let model = parent.agent.model.clone();
        let config = new.agent_config(&tools, model, settings).map_err(refused)?;
        let task = NewTask {
            id: Some(TaskId::new()),
            agent: AGENT.to_owned(),
            assignment: new.task_prompt.clone(),
            label: Some(new.label.clone()),
            metadata: new.metadata(),
            quota: settings.quota.if_any(),
            ..NewTask::default()
        };
        let delegation = NewDelegation {
            task,
            config: Some(config),
            any_length: true,
            ..NewDelegation::default()
        };
        Ok(PlannedChild { delegation })
    }

    fn log_spawned(&self, child: &PlannedChild, parent: &NestedParent<'_>) {
        let depth = parent.depth.of_children();
        let Some(config) = &child.delegation.config else { return };
        let event = Event::of_spawn(config, depth, parent.operator.max_turns_ceiling);
        log(&event, label_of(child), parent);
    }

    fn refused(
        &self,
        child: &PlannedChild,
        parent: &NestedParent<'_>,
        refusal: &Refusal,
    ) -> Answer {
        if refusal.message.starts_with(QUOTA_EXCEEDED) {
            log(&Event::QuotaExceeded, label_of(child), parent);
        }
        answers::refused(&Wrong(refusal.message.clone()), child.delegation.task.label.as_deref())
    }

    fn ended(&self, child: &EndedTask, parent: &NestedParent<'_>) -> Answer {
        answers::ended(child, &parent.settings.xzatoma)
    }
}

fn label_of(child: &PlannedChild) -> &str {
    child.delegation.task.label.as_deref().unwrap_or_default()
}

fn log(event: &Event, label: &str, parent: &NestedParent<'_>) {
    if parent.settings.xzatoma.telemetry_enabled {
        event.log(label);
    }
}
