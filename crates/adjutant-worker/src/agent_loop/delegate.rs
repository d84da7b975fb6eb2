//! Calls with which an agent delegates. They are idempotent: a call that was interrupted by the
//! death of its worker is executed again.

use std::time::Instant;

use adjutant_agent::{
    AgentConfig, AgentDefinition, DEFAULT_MAX_DEPTH, Delegation, ErrorCode, Refusal, TaskNumber,
    TaskState, TaskView, ToolResult, ToolUse,
};
use adjutant_dialects::DialectSettings;
use adjutant_dialects::nested::NestedCalls;
use adjutant_dialects::spec::nested::{ChildCall, child_outcome, child_status, spawned_child};
use adjutant_dialects::spec::{BatchItem, CancelCall, CollectCall, ReadCall, StatusCall, render};
use adjutant_store::{Agent, Assignment, Error, NewDelegation, Operator};
use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use super::run_tools::{ToolRunner, error, refused};
use crate::{Stop, fault};

/// The operator's settings for agents that delegate further.
#[derive(Debug, Clone)]
pub struct Delegating {
    pub operator: Operator,
    /// The greatest depth of a task; 1 allows only the orchestrator's own tasks.
    pub max_depth: i16,
    pub dialects: DialectSettings,
}

impl Default for Delegating {
    fn default() -> Self {
        Self {
            operator: Operator::default(),
            max_depth: DEFAULT_MAX_DEPTH,
            dialects: DialectSettings::default(),
        }
    }
}

impl Delegating {
    pub(super) fn of(&self, agent: &AgentConfig, assignment: &Assignment) -> Delegation {
        agent.delegation(assignment.depth, self.max_depth)
    }

    /// What a task with this configuration sees of another agent; none if it may not use it.
    pub(super) fn shown(
        &self,
        parent: &AgentConfig,
        agent: AgentDefinition,
    ) -> Option<AgentDefinition> {
        parent.grants().shown(agent, &self.operator.default_model)
    }
}

impl ToolRunner<'_> {
    /// Executes a call that delegates, and returns its result when it is stored.
    pub(super) async fn delegate(
        &self,
        call: &ToolUse,
        arguments: &Value,
    ) -> Result<ToolResult, Stop> {
        let began = Instant::now();
        if let NestedCalls::Blocking(tool) = NestedCalls::of(self.agent) {
            return self.store(call, self.not_spawned(tool, call, arguments)).await;
        }
        if let Some(why) = self.delegation.refusal() {
            return self.store(call, error(call, why, began)).await;
        }
        let answer = match ChildCall::parse(arguments, &self.delegating.operator.texts) {
            Ok(ChildCall::Collect(collect)) => return self.collect(call, &collect, began).await,
            Ok(action) => self.perform(call, action).await,
            Err(refusal) => Err(Stop::Store(refusal.into())),
        };
        let result = tool_result(call, answer, began)?;
        self.store(call, result).await
    }

    async fn perform(&self, call: &ToolUse, action: ChildCall) -> Result<Value, Stop> {
        match action {
            ChildCall::ListAgents => self.list_agents().await,
            ChildCall::Spawn(item) => {
                let mut tasks = self.spawn(call, std::slice::from_ref(&*item)).await?;
                Ok(tasks.pop().unwrap_or_default())
            }
            ChildCall::Batch(items) => Ok(json!({ "tasks": self.spawn(call, &items).await? })),
            ChildCall::Status(StatusCall { task_id }) => {
                let child = self.child(task_id).await?;
                if child.collected_at.is_some() {
                    Err(no_task(task_id, child.collected_at))
                } else {
                    Ok(Value::Object(child_status(&child)))
                }
            }
            ChildCall::Read(read) => self.read(&read).await,
            ChildCall::Cancel(cancel) => self.cancel(&cancel).await,
            // The callers handle these.
            ChildCall::Wait(_) | ChildCall::Collect(_) => Err(Stop::Store(
                Refusal::new(ErrorCode::Internal, "This call cannot be made here").into(),
            )),
        }
    }

    async fn list_agents(&self) -> Result<Value, Stop> {
        let operator = &self.delegating.operator;
        let shown = |agent: Agent| {
            let agent = self.delegating.shown(self.agent, agent.definition)?;
            Some(render::agent(&agent, &operator.default_model, operator.max_turns_ceiling))
        };
        let agents = self.task.agents().await?;
        Ok(json!({ "agents": agents.into_iter().filter_map(shown).collect::<Vec<_>>() }))
    }

    async fn spawn(&self, call: &ToolUse, items: &[BatchItem]) -> Result<Vec<Value>, Stop> {
        let new = items.iter().map(delegation).collect();
        fault::point("delegating");
        let spawned = self.task.delegate(&call.id, new, &self.delegating.operator).await?;
        fault::point("delegated");
        let shown = items.iter().zip(&spawned).map(|(item, spawned)| {
            let mut shown =
                spawned_child(spawned.number, &item.agent, item.options.label.as_deref());
            shown.extend(item.name.as_ref().map(|name| ("name".to_owned(), json!(name))));
            Value::Object(shown)
        });
        Ok(shown.collect())
    }

    async fn child(&self, number: TaskNumber) -> Result<TaskView, Stop> {
        let children = self.task.children().await?;
        children
            .into_iter()
            .find(|child| child.number == number)
            .ok_or_else(|| no_task(number, None))
    }

    async fn read(&self, call: &ReadCall) -> Result<Value, Stop> {
        self.child(call.task_id).await?;
        let page = self.task.read_result(call).await?;
        Ok(render::page(call, &page.text, page.next_offset, page.result_chars))
    }

    /// The answer depends only on the child's state, so that it is the same if the call is
    /// repeated.
    async fn cancel(&self, call: &CancelCall) -> Result<Value, Stop> {
        self.task.cancel_child(call.task_id).await?;
        fault::point("cancelled");
        let (child, outcome) = self.task.outcome_of_child(call.task_id).await?;
        let mut shown = child_outcome(&child, &outcome);
        shown.insert("cancelled".to_owned(), json!(child.state == TaskState::Cancelled));
        Ok(Value::Object(shown))
    }

    /// The result and the mark that the child was collected are stored in one transaction.
    async fn collect(
        &self,
        call: &ToolUse,
        collect: &CollectCall,
        began: Instant,
    ) -> Result<ToolResult, Stop> {
        let collected = async {
            let (child, outcome) = self.task.outcome_of_child(collect.task_id).await?;
            let result =
                tool_result(call, Ok(Value::Object(child_outcome(&child, &outcome))), began)?;
            fault::point("collecting");
            self.task.collect_child(collect.task_id, &result).await?;
            fault::point("tool_stored");
            Ok(result)
        };
        match collected.await {
            Err(Stop::Store(Error::Refused(refusal))) => {
                self.store(call, error(call, refused(&refusal), began)).await
            }
            result => result,
        }
    }
}

/// A refusal is a result too, and the agent continues with it.
fn tool_result(
    call: &ToolUse,
    answer: Result<Value, Stop>,
    began: Instant,
) -> Result<ToolResult, Stop> {
    match answer {
        Ok(answer) => Ok(ToolResult { is_error: false, ..error(call, answer.to_string(), began) }),
        Err(Stop::Store(Error::Refused(refusal))) => Ok(error(call, refused(&refusal), began)),
        Err(stop) => Err(stop),
    }
}

fn no_task(number: TaskNumber, collected_at: Option<DateTime<Utc>>) -> Stop {
    Stop::Store(Refusal::no_task(number, collected_at).into())
}

/// A child runs in the pool of its agent, or else of its parent, whose workers have what its tree
/// needs; it chooses none.
fn delegation(item: &BatchItem) -> NewDelegation {
    let mut new = NewDelegation::from(item);
    new.task.pool.clear();
    new
}
