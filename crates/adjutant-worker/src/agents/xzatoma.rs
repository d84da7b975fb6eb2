//! Agents that delegate as seed 003 does: one call makes a child, waits for it and returns what it found.

use std::time::Instant;

use adjutant_agent::dialects::xzatoma::{self, Call, Event, OVER_QUOTA, Wrong};
use adjutant_agent::dialects::{Answer, EndedTask};
use adjutant_agent::{Delegation, TaskId, TaskNumber, ToolResult, ToolUse, WaitMode};
use adjutant_store::{Error, NewTask};
use serde_json::{Map, Value};

use super::await_children::Wait;
use super::use_tools::{Bench, error};
use crate::{Stop, fault};

/// What stands where a task has its agent.
const AGENT: &str = "subagent";

impl Bench<'_> {
    /// Makes the child that a call asks for, once; and when that has ended, says how it went.
    pub(super) async fn wait_for_one(&self, call: &ToolUse, arguments: &Value) -> Result<Wait, Stop> {
        let new = match Call::parse(arguments) {
            Ok(Call::New(new)) if self.delegation.refusal().is_none() => new,
            Ok(_) | Err(_) => return Ok(Wait::Over(self.not_begun(call, arguments))),
        };
        match self.spawn_one(call, &new).await {
            Ok(number) => self.look_at(call, number).await,
            Err(Stop::Store(Error::Refused(refusal))) => {
                if refusal.message.starts_with(OVER_QUOTA) {
                    self.tell(&Event::QuotaExceeded, &new.label);
                }
                Ok(Wait::Over(told(call, xzatoma::refused(&Wrong(refusal.message), Some(&new.label)))))
            }
            Err(stop) => Err(stop),
        }
    }

    async fn spawn_one(&self, call: &ToolUse, new: &xzatoma::Delegation) -> Result<TaskNumber, Stop> {
        let settings = &self.delegating.xzatoma;
        let tools: Vec<String> = self.agent.allowed_tools().map(str::to_owned).collect();
        let spec = new.spec(&tools, self.agent.model.clone(), settings).map_err(|wrong| refusal(&wrong))?;
        let operator = &self.delegating.operator;
        let begins = Event::of_spawn(&spec, self.depth() + 1, operator.max_turns_ceiling);
        let id = TaskId::new();
        let task = NewTask {
            id: Some(id),
            agent: AGENT.to_owned(),
            config: operator.config_of(spec).map_err(Stop::Store)?,
            assignment: new.task_prompt.clone(),
            label: Some(new.label.clone()),
            metadata: new.metadata(),
            pool: self.task.pool().to_owned(),
            quota: settings.quota.if_any(),
            ..NewTask::default()
        };
        fault::point("delegating");
        let spawned = self.task.spawn_by_call(&call.id, &[task]).await?;
        let first = spawned.first();
        // A call that is made again finds its child.
        if first.is_some_and(|first| first.id == id) {
            self.tell(&begins, &new.label);
        }
        fault::point("delegated");
        first
            .map(|spawned| spawned.number)
            .ok_or_else(|| refusal(&Wrong("Subagent execution failed: it was not begun".to_owned())))
    }

    async fn look_at(&self, call: &ToolUse, number: TaskNumber) -> Result<Wait, Stop> {
        let children = self.task.children().await?;
        let child = children.into_iter().find(|child| child.number == number);
        if let Some(child) = child.as_ref().filter(|child| !child.state.is_terminal()) {
            return Ok(Wait::Until { children: vec![child.id], mode: WaitMode::All, at_most: None });
        }
        let (child, outcome) = self.task.outcome_of_child(number).await?;
        let ended = EndedTask {
            number: child.number,
            agent: child.agent,
            label: child.label,
            depth: self.task.assignment().depth.saturating_add(1),
            metadata: Map::new(),
            outcome,
            turns_used: child.turns_used,
            answers: child.answers,
            spent: child.spent,
        };
        Ok(Wait::Over(told(call, xzatoma::ended(&ended, &self.delegating.xzatoma))))
    }

    /// The answer to a call that makes no child.
    pub(super) fn not_begun(&self, call: &ToolUse, arguments: &Value) -> ToolResult {
        let asked = Call::parse(arguments);
        if let Delegation::TooDeep { depth, max_depth } = self.delegation {
            // What is no call has no label, but whatever text the model wrote there.
            let label = if let Ok(Call::New(new)) = &asked { &new.label } else { "" };
            let (current_depth, max_depth) = (depth.into(), max_depth.into());
            self.tell(&Event::DepthLimit { current_depth, max_depth }, label);
        }
        let wrong = match (self.delegation.refusal(), asked) {
            (Some(why), _) => Wrong(why),
            (None, Err(wrong)) => wrong,
            (None, Ok(_)) => Wrong("Invalid input: task_id: there is nothing to go on with".to_owned()),
        };
        told(call, xzatoma::refused(&wrong, arguments["label"].as_str()))
    }

    /// How deep the source says that this task is: 0 is an orchestrator.
    fn depth(&self) -> i32 {
        i32::from(self.task.assignment().depth) + 1
    }

    fn tell(&self, event: &Event, label: &str) {
        if self.delegating.xzatoma.telemetry_enabled {
            event.tell(label);
        }
    }
}

fn told(call: &ToolUse, answer: Answer) -> ToolResult {
    ToolResult { is_error: answer.is_error, ..error(call, answer.text, Instant::now()) }
}

fn refusal(Wrong(message): &Wrong) -> Stop {
    Stop::Store(adjutant_agent::Refusal::new(adjutant_agent::ErrorCode::InvalidArgument, message).into())
}
