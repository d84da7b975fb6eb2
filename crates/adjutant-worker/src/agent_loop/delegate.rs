//! Calls with which an agent delegates. What they change is stored once, however often they are made, so a call that was under
//! way when its worker died is simply made again.

use std::time::Instant;

use adjutant_agent::{
    AgentConfig, DEFAULT_MAX_DEPTH, Delegation, ErrorCode, Refusal, TaskNumber, TaskState,
    TaskView, ToolResult, ToolUse,
};
use adjutant_dialects::DialectSettings;
use adjutant_dialects::nested::NestedCalls;
use adjutant_dialects::spec::nested::{ChildCall, child_outcome, child_status, spawned_child};
use adjutant_dialects::spec::{BatchItem, CancelCall, CollectCall, ReadCall, StatusCall, render};
use adjutant_store::{Agent, Assignment, Error, NewDelegation, Operator};
use serde_json::{Value, json};

use super::run_tools::{ToolRunner, error, refused};
use crate::{Stop, fault};

/// What the operator says of agents that delegate further.
#[derive(Debug, Clone)]
pub struct Delegating {
    pub operator: Operator,
    /// How many levels of tasks there may be: 1 is the orchestrator's own, and none below them.
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
}

impl ToolRunner<'_> {
    /// Makes a call to delegate, and gives its result when it is stored.
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
        let answer = match ChildCall::parse(arguments) {
            Ok(ChildCall::Collect(collect)) => return self.collect(call, &collect, began).await,
            Ok(asked) => self.perform(call, asked).await,
            Err(refusal) => Err(Stop::Store(refusal.into())),
        };
        let result = told(call, answer, began)?;
        self.store(call, result).await
    }

    async fn perform(&self, call: &ToolUse, asked: ChildCall) -> Result<Value, Stop> {
        match asked {
            ChildCall::ListAgents => self.list_agents().await,
            ChildCall::Spawn(item) => {
                let mut tasks = self.spawn(call, std::slice::from_ref(&*item)).await?;
                Ok(tasks.pop().unwrap_or_default())
            }
            ChildCall::Batch(items) => Ok(json!({ "tasks": self.spawn(call, &items).await? })),
            ChildCall::Status(StatusCall { task_id }) => {
                let child = self.child(task_id).await?;
                if child.collected_at.is_some() {
                    Err(not_found(task_id))
                } else {
                    Ok(Value::Object(child_status(&child)))
                }
            }
            ChildCall::Read(read) => self.read(&read).await,
            ChildCall::Cancel(cancel) => self.cancel(&cancel).await,
            // The loop sees to these before it comes here.
            ChildCall::Wait(_) | ChildCall::Collect(_) => Err(Stop::Store(
                Refusal::new(ErrorCode::Internal, "This call cannot be made here").into(),
            )),
        }
    }

    async fn list_agents(&self) -> Result<Value, Stop> {
        let operator = &self.delegating.operator;
        let shown = |agent: &Agent| {
            render::agent(&agent.definition, &operator.default_model, operator.max_turns_ceiling)
        };
        let agents = self.task.agents().await?;
        Ok(json!({ "agents": agents.iter().map(shown).collect::<Vec<_>>() }))
    }

    async fn spawn(&self, call: &ToolUse, items: &[BatchItem]) -> Result<Vec<Value>, Stop> {
        let new = items.iter().map(|item| delegation(item, self.task.pool())).collect();
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
        children.into_iter().find(|child| child.number == number).ok_or_else(|| not_found(number))
    }

    async fn read(&self, call: &ReadCall) -> Result<Value, Stop> {
        self.child(call.task_id).await?;
        let page = self.task.read_result(call).await?;
        Ok(render::page(call, &page.text, page.next_offset, page.result_chars))
    }

    /// The answer says what the child is now, not who made it so: it is the same when the call is made again.
    async fn cancel(&self, call: &CancelCall) -> Result<Value, Stop> {
        self.task.cancel_child(call.task_id).await?;
        fault::point("cancelled");
        let (child, outcome) = self.task.outcome_of_child(call.task_id).await?;
        let mut shown = child_outcome(&child, &outcome);
        shown.insert("cancelled".to_owned(), json!(child.state == TaskState::Cancelled));
        Ok(Value::Object(shown))
    }

    /// What is handed over, and that it was, are stored together.
    async fn collect(
        &self,
        call: &ToolUse,
        collect: &CollectCall,
        began: Instant,
    ) -> Result<ToolResult, Stop> {
        let collected = async {
            let (child, outcome) = self.task.outcome_of_child(collect.task_id).await?;
            let result = told(call, Ok(Value::Object(child_outcome(&child, &outcome))), began)?;
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

/// What was refused is a result too: the agent goes on with it.
fn told(call: &ToolUse, answer: Result<Value, Stop>, began: Instant) -> Result<ToolResult, Stop> {
    match answer {
        Ok(answer) => Ok(ToolResult { is_error: false, ..error(call, answer.to_string(), began) }),
        Err(Stop::Store(Error::Refused(refusal))) => Ok(error(call, refused(&refusal), began)),
        Err(stop) => Err(stop),
    }
}

fn not_found(number: TaskNumber) -> Stop {
    Stop::Store(Refusal::new(ErrorCode::TaskNotFound, format!("Task not found: {number}")).into())
}

/// A child runs in the pool of its parent, whose workers have what its tree needs.
fn delegation(item: &BatchItem, pool: &str) -> NewDelegation {
    let mut new = NewDelegation::from(item);
    new.task.pool = pool.to_owned();
    new
}
