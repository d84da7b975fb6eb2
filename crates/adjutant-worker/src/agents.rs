//! What `adjutant work` does with tasks: it runs the loops of their agents.
//!
//! `next` of `adjutant-agent` decides from the stored turns, this performs what it decides and stores what came of it, and
//! asks again. Going on after a crash is the same code: load the turns, ask.

mod ask;
mod await_children;
mod delegate;
mod models;
mod use_tools;
mod xzatoma;

use std::sync::Arc;

use adjutant_agent::{
    AgentSpec, Conversation, Delegation, DelegationForm, FailureKind, Next, Outcome, StoredTurn,
    ToolDefinition, ToolResult, Window, delegation_tool, give_up, next, prompts, shared_context_tool,
    subagent_lines,
};
use serde::Deserialize;
use tracing::Span;

use crate::model::Model;
use crate::tools::Toolbox;
use crate::{End, Handler, Stop, Task, report};

use ask::{Asked, Question};
use await_children::Awaited;
pub use delegate::Delegating;
pub use models::Models;
use use_tools::{Bench, SHARED_CONTEXT};

/// The handler that runs agents.
pub struct Agents {
    models: Models,
    toolbox: Arc<Toolbox>,
    delegating: Delegating,
}

impl Agents {
    /// Agents that do not delegate further.
    pub fn new(models: Models, toolbox: Arc<Toolbox>) -> Self {
        Self { models, toolbox, delegating: Delegating::default() }
    }

    /// The same, but those that may delegate do, as deep as this says.
    pub fn delegating(self, delegating: Delegating) -> Self {
        Self { delegating, ..self }
    }

    async fn run_turns(&self, task: &mut Task, agent: &AgentSpec, model: &Model) -> Result<End, Stop> {
        self.tools_are_there(task, agent).await?;
        let assignment = task.assignment().text.clone();
        let earlier = task.earlier_tasks().await?;
        let conversation =
            Conversation { agent, earlier: &earlier, assignment: &assignment, window: window(model) };
        let delegation = self.delegating.of(agent, task.assignment());
        let mut turns = task.turns().await?;
        let mut cleared = None;
        loop {
            match next(&conversation, &turns, task.attempt()) {
                Next::CallModel { kind, request } => {
                    let tools = self.definitions(agent, delegation);
                    let question = Question { agent, kind, request: &request, tools: &tools, turns: &turns };
                    match ask::ask(task, model, question, cleared.take()).await? {
                        Asked::Answered(turn) => {
                            cleared = Some(task.checkpoint_and_clear(&turn, model.name()).await?);
                            report::turned(task, &turn);
                            turns.push(StoredTurn {
                                number: task.answers(),
                                attempt: task.attempt(),
                                turn,
                                tool_results: Vec::new(),
                            });
                        }
                        Asked::Ended(end) => return Ok(end),
                    }
                }
                Next::RunTools(calls) => {
                    let results = self.bench(task, agent, delegation).use_tools(&calls).await;
                    if let Some(end) = keep(&mut turns, task, results)? {
                        return Ok(end);
                    }
                }
                Next::Await(calls) => {
                    let results = match self.bench(task, agent, delegation).await_children(&calls).await {
                        Ok(Awaited::Parked(end)) => return Ok(end),
                        Ok(Awaited::Answered(results)) => Ok(results),
                        Err(stop) => Err(stop),
                    };
                    if let Some(end) = keep(&mut turns, task, results)? {
                        return Ok(end);
                    }
                }
                Next::Finish(outcome) => return Ok(end(outcome)),
            }
        }
    }

    /// A server may take longer to start than this worker: until it has, a model would be told that its tools do not exist.
    async fn tools_are_there(&self, task: &Task, agent: &AgentSpec) -> Result<(), Stop> {
        let names = agent.allowed_tools().filter(|name| *name != SHARED_CONTEXT);
        task.unless_leaving(self.toolbox.ready_for(names)).await
    }

    /// Those that it may call, a line each, if its prompt names them. They are those that its session has when the attempt begins.
    async fn subagents(&self, task: &Task, agent: &AgentSpec) -> Result<String, Stop> {
        let calls_by_name = agent.delegation == DelegationForm::Spec
            && self.delegating.of(agent, task.assignment()) == Delegation::Here;
        if !calls_by_name || !agent.names_subagents() {
            return Ok(String::new());
        }
        let agents = task.agents().await?;
        let definitions = agents.iter().map(|agent| &agent.definition);
        Ok(subagent_lines(definitions.map(|agent| (agent.name.as_str(), agent.description.as_str()))))
    }

    /// Tools of servers come and go, so this is asked before every call.
    fn definitions(&self, agent: &AgentSpec, delegation: Delegation) -> Vec<ToolDefinition> {
        let mut tools = self.toolbox.definitions(agent.allowed_tools());
        tools.extend(agent.allowed_tools().any(|name| name == SHARED_CONTEXT).then(shared_context_tool));
        tools.extend((delegation == Delegation::Here).then(|| delegation_tool(agent.delegation)));
        tools
    }

    fn bench<'a>(&'a self, task: &'a Task, agent: &'a AgentSpec, delegation: Delegation) -> Bench<'a> {
        Bench { task, toolbox: &self.toolbox, agent, delegating: &self.delegating, delegation }
    }
}

impl Handler for Agents {
    async fn run(&self, task: &mut Task) -> Result<End, Stop> {
        let agent = match AgentSpec::deserialize(&task.assignment().config) {
            Ok(agent) => agent,
            Err(error) => return Ok(failed(FailureKind::Internal, format!("The task's config: {error}"))),
        };
        let subagents = self.subagents(task, &agent).await?;
        let agent = match agent.equipped_with(&subagents) {
            Ok(equipped) => {
                report::missed(task, &equipped.missing);
                equipped.spec
            }
            Err(refusal) => return Ok(failed(FailureKind::Tool, refusal.message)),
        };
        let Some(model) = self.models.get(&agent.model) else {
            return Ok(failed(FailureKind::Model, self.models.unknown(&agent.model)));
        };
        let span = Span::current();
        span.record("gen_ai.provider.name", model.wire().as_str());
        span.record("gen_ai.request.model", model.name_on_the_wire());
        self.run_turns(task, &agent, &model).await
    }
}

/// Takes stored results into the last turn. Without them the model cannot go on, and another try would end the same way: then
/// this is the end.
fn keep(
    turns: &mut [StoredTurn],
    task: &Task,
    results: Result<Vec<ToolResult>, Stop>,
) -> Result<Option<End>, Stop> {
    match results {
        Ok(results) => {
            if let Some(last) = turns.last_mut() {
                last.tool_results.extend(results);
            }
            Ok(None)
        }
        Err(Stop::Store(error)) => {
            let error = prompts::tool_error(task.answers(), error);
            Ok(Some(end(give_up(turns, FailureKind::Tool, error))))
        }
        Err(stop @ (Stop::HandOver | Stop::LeaseLost)) => Err(stop),
    }
}

fn window(model: &Model) -> Option<Window> {
    let context_tokens = model.context_window()?.into();
    Some(Window { context_tokens, max_output_tokens: model.max_tokens().into() })
}

fn end(outcome: Outcome) -> End {
    match outcome {
        Outcome::Completed { result, summary } => End::Completed { result, summary },
        Outcome::Failed { failure, error, partial_result } => End::Failed { failure, error, partial_result },
        // The loop never decides this: it is taken away from it.
        Outcome::Cancelled { partial_result } => {
            End::Failed { failure: FailureKind::Internal, error: "Cancelled".to_owned(), partial_result }
        }
    }
}

fn failed(failure: FailureKind, error: String) -> End {
    End::Failed { failure, error, partial_result: None }
}
