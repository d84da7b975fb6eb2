//! Calls that spawn one child and wait for it, for agents whose dialect delegates so.

use std::time::Instant;

use adjutant_agent::{EndedTask, TaskNumber, ToolResult, ToolUse, WaitMode};
use adjutant_dialects::Answer;
use adjutant_dialects::nested::{BlockingTool, NestedParent, PlannedChild};
use adjutant_store::Error;
use serde_json::{Map, Value};

use super::await_children::Wait;
use super::run_tools::{ToolRunner, error};
use crate::{Stop, fault};

impl ToolRunner<'_> {
    /// Spawns the child that a call asks for, once; and when it has ended, answers with its outcome.
    pub(super) async fn wait_for_one(
        &self,
        tool: &dyn BlockingTool,
        call: &ToolUse,
        arguments: &Value,
    ) -> Result<Wait, Stop> {
        let parent = self.nested_parent();
        let child = match tool.plan(arguments, &parent) {
            Ok(child) => child,
            Err(answer) => return Ok(Wait::Over(result(call, answer))),
        };
        match self.spawn_one(tool, call, &child).await {
            Ok(number) => self.poll_child(tool, call, number).await,
            Err(Stop::Store(Error::Refused(refusal))) => {
                Ok(Wait::Over(result(call, tool.refused(&child, &parent, &refusal))))
            }
            Err(stop) => Err(stop),
        }
    }

    async fn spawn_one(
        &self,
        tool: &dyn BlockingTool,
        call: &ToolUse,
        child: &PlannedChild,
    ) -> Result<TaskNumber, Stop> {
        fault::point("delegating");
        let delegation = vec![child.delegation.clone()];
        let spawned = self.task.delegate(&call.id, delegation, &self.delegating.operator).await?;
        let first = spawned.first();
        // A call that is repeated finds the child of the first one.
        if first.is_some_and(|first| Some(first.id) == child.delegation.task.id) {
            tool.log_spawned(child, &self.nested_parent());
        }
        fault::point("delegated");
        first.map(|spawned| spawned.number).ok_or_else(|| {
            let message = "Subagent execution failed: it was not begun";
            let code = adjutant_agent::ErrorCode::InvalidArgument;
            Stop::Store(adjutant_agent::Refusal::new(code, message).into())
        })
    }

    async fn poll_child(
        &self,
        tool: &dyn BlockingTool,
        call: &ToolUse,
        number: TaskNumber,
    ) -> Result<Wait, Stop> {
        let children = self.task.children().await?;
        let child = children.into_iter().find(|child| child.number == number);
        if let Some(child) = child.as_ref().filter(|child| !child.state.is_terminal()) {
            return Ok(Wait::Until {
                children: vec![child.id],
                mode: WaitMode::All,
                at_most: None,
            });
        }
        let (child, outcome) = self.task.outcome_of_child(number).await?;
        let ended = EndedTask {
            spent: child.spent(),
            number: child.number,
            agent: child.agent,
            label: child.label,
            depth: self.task.assignment().depth.saturating_add(1),
            metadata: Map::new(),
            outcome,
            turns_used: child.turns_used,
            answers: child.answers,
        };
        Ok(Wait::Over(result(call, tool.ended(&ended, &self.nested_parent()))))
    }

    /// The answer to a call that spawns no child.
    pub(super) fn not_spawned(
        &self,
        tool: &dyn BlockingTool,
        call: &ToolUse,
        arguments: &Value,
    ) -> ToolResult {
        match tool.plan(arguments, &self.nested_parent()) {
            Err(answer) => result(call, answer),
            // The loop gives a call that spawns to `wait_for_one`.
            Ok(_) => error(call, "This call cannot be made here".to_owned(), Instant::now()),
        }
    }

    fn nested_parent(&self) -> NestedParent<'_> {
        NestedParent {
            agent: self.agent,
            depth: self.task.assignment().depth,
            pool: self.task.pool(),
            delegation: self.delegation,
            operator: &self.delegating.operator,
            settings: &self.delegating.dialects,
        }
    }
}

fn result(call: &ToolUse, answer: Answer) -> ToolResult {
    ToolResult { is_error: answer.is_error, ..error(call, answer.text, Instant::now()) }
}
