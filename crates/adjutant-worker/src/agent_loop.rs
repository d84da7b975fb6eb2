//! The agent loop: the handler of `adjutant work`.
//!
//! [`next`] in `adjutant-agent` decides the next step from the stored turns. The loop performs the
//! step, stores its result and decides again. Recovery after a crash is the same code path as the
//! start: load the turns, decide.
//!
//! - `call_model` makes one model call, with budgets, the model's limits and gate, and retries.
//! - `failing_call` counts the tries of a call that fails, and closes gates.
//! - `budgets` says whether a call may cost something.
//! - `models` says which model is called next if one does not answer.
//! - `run_tools` runs the tool calls of one answer.
//! - `delegate` and `await_children` run the tool calls that create and await child tasks.

mod await_children;
mod blocking_call;
mod budgets;
mod call_limiter;
mod call_model;
mod delegate;
mod failing_call;
mod models;
mod run_tools;

use std::sync::Arc;
use std::time::Duration;

use adjutant_agent::{
    AgentConfig, Conversation, Delegation, FailureKind, Next, Outcome, StoredTurn, ToolDefinition,
    ToolResult, Turn, give_up, next, prompts, shared_context_tool, subagent_lines,
};
use adjutant_dialects::nested::{NestedCalls, waits};
use adjutant_store::Abilities;
use serde::Deserialize;
use tracing::Span;

use crate::model::Model;
use crate::tools::{Toolbox, is_for};
use crate::{End, Handler, Stop, Task, telemetry};

use await_children::Awaited;
use call_model::{CallResult, LONGEST_WAIT, ModelCall, call_model, spread};
pub use delegate::Delegating;
use failing_call::FailingCall;
pub use models::Models;
use models::{Following, ModelChain};
use run_tools::{SHARED_CONTEXT, ToolRunner};

/// The handler that runs agents.
pub struct Agents {
    models: Models,
    toolbox: Arc<Toolbox>,
    delegating: Delegating,
    model_patience: Duration,
}

/// How long a task waits for a model whose provider refuses the key, if the operator does not say.
pub const DEFAULT_MODEL_PATIENCE: Duration = Duration::from_secs(600);

impl Agents {
    /// With the default settings for agents that delegate.
    pub fn new(models: Models, toolbox: Arc<Toolbox>) -> Self {
        let (delegating, model_patience) = (Delegating::default(), DEFAULT_MODEL_PATIENCE);
        Self { models, toolbox, delegating, model_patience }
    }

    /// With these settings for agents that delegate.
    pub fn delegating(self, delegating: Delegating) -> Self {
        Self { delegating, ..self }
    }

    /// With this time that tasks wait for a model whose provider refuses the key.
    pub fn model_patience(self, model_patience: Duration) -> Self {
        Self { model_patience, ..self }
    }

    async fn run_turns(
        &self,
        task: &mut Task,
        agent: &AgentConfig,
        mut chain: ModelChain,
        tenant: Option<&str>,
    ) -> Result<End, Stop> {
        self.wait_for_tools(task, agent).await?;
        let (assignment, earlier) = (task.assignment().text.clone(), task.earlier_tasks().await?);
        let delegation = self.delegating.of(agent, task.assignment());
        let mut turns = load_turns(task, agent).await?;
        let mut preflight = None;
        let mut too_long: Option<String> = None;
        let mut failing = FailingCall::new(self.model_patience);
        loop {
            let model = &chain.current().model;
            let conversation = Conversation {
                agent,
                earlier: &earlier,
                assignment: &assignment,
                window: model.context_window(),
                waits,
                compaction: agent.compaction.unwrap_or(model.compaction()),
                too_long: too_long.as_deref(),
            };
            match next(&conversation, &turns, task.attempt()) {
                Next::CallModel { kind, request } => {
                    let tools = self.definitions(agent, delegation, tenant);
                    let call =
                        ModelCall { agent, kind, request: &request, tools: &tools, turns: &turns };
                    match call_model(task, &chain, call, &mut failing, preflight.take()).await? {
                        CallResult::Answered(turn) => {
                            too_long = None;
                            let next = task.checkpoint(&turn).await?;
                            // It is of the model that answered.
                            preflight = chain.is_at_start().then_some(next);
                            chain.restart();
                            failing.answered();
                            add_turn(&mut turns, task, turn);
                        }
                        CallResult::Ended(end) => return Ok(end),
                        CallResult::TooLong(error) => {
                            // The conversation is compacted once; then the task fails.
                            if too_long.is_some() {
                                return Ok(end(give_up(&turns, FailureKind::Model, error)));
                            }
                            log_too_long(task, &chain.current().model);
                            too_long = Some(error);
                        }
                        CallResult::Unavailable { closed_for, error } => {
                            if let Some(end) =
                                leave_model(task, &mut chain, closed_for, error, &turns).await
                            {
                                return Ok(end);
                            }
                        }
                    }
                }
                Next::RunTools(calls) => {
                    let runner = self.tool_runner(task, agent, delegation, tenant);
                    let results = runner.run_tools(&calls).await;
                    if let Some(end) = add_results(&mut turns, task, results)? {
                        return Ok(end);
                    }
                }
                Next::WaitForChildren(calls) => {
                    let runner = self.tool_runner(task, agent, delegation, tenant);
                    let results = match runner.await_children(&calls).await {
                        Ok(Awaited::Parked(end)) => return Ok(end),
                        Ok(Awaited::Answered(results)) => Ok(results),
                        Err(stop) => Err(stop),
                    };
                    if let Some(end) = add_results(&mut turns, task, results)? {
                        return Ok(end);
                    }
                }
                Next::Finish(outcome) => return Ok(end(self.with_model(outcome, &turns))),
            }
        }
    }

    /// Names the model that refused to answer, and its host.
    fn with_model(&self, outcome: Outcome, turns: &[StoredTurn]) -> Outcome {
        let name = turns.last().and_then(|turn| turn.turn.model.as_deref());
        match (outcome, name.and_then(|name| self.models.get(name))) {
            (Outcome::Failed { failure, error, partial_result }, Some(model))
                if error == prompts::model_error(prompts::REFUSED) =>
            {
                let error = prompts::model_error(model.says(prompts::REFUSED));
                Outcome::Failed { failure, error, partial_result }
            }
            (outcome, _) => outcome,
        }
    }

    /// Waits for MCP servers that provide tools of the agent: they may take longer to start than
    /// this worker, and a call of their tools would fail.
    async fn wait_for_tools(&self, task: &Task, agent: &AgentConfig) -> Result<(), Stop> {
        let names = agent.allowed_tools().filter(|name| *name != SHARED_CONTEXT);
        task.unless_draining(self.toolbox.ready_for(names)).await
    }

    /// The agents that this agent may delegate to, one per line, if its prompt lists them. They are
    /// those of the session when the attempt starts.
    async fn subagents(&self, task: &Task, agent: &AgentConfig) -> Result<String, Stop> {
        let calls_by_name = matches!(NestedCalls::of(agent), NestedCalls::Actions)
            && self.delegating.of(agent, task.assignment()) == Delegation::Allowed;
        if !calls_by_name || !agent.names_subagents() {
            return Ok(String::new());
        }
        let agents = task.agents().await?;
        let agents = agents.into_iter().map(|agent| agent.definition);
        let shown: Vec<_> =
            agents.filter_map(|known| self.delegating.shown(agent, known)).collect();
        let lines = shown.iter().map(|known| (known.name.as_str(), known.description.as_str()));
        Ok(subagent_lines(lines))
    }

    /// The tenant of the task, if some tool or model of this worker is only for some tenants.
    async fn tenant(&self, task: &Task) -> Result<Option<String>, Stop> {
        if self.toolbox.is_limited() || self.models.are_limited() {
            task.tenant().await
        } else {
            Ok(None)
        }
    }

    /// Called before every model call, since the tools of MCP servers may change.
    fn definitions(
        &self,
        agent: &AgentConfig,
        delegation: Delegation,
        tenant: Option<&str>,
    ) -> Vec<ToolDefinition> {
        let mut tools = self.toolbox.definitions(agent.allowed_tools(), tenant);
        let limits = &self.delegating.operator.texts;
        let has_context = agent.allowed_tools().any(|name| name == SHARED_CONTEXT);
        tools.extend(has_context.then(|| shared_context_tool(limits)));
        let delegates = delegation == Delegation::Allowed;
        tools.extend(delegates.then(|| NestedCalls::of(agent).tool(limits)));
        tools
    }

    fn tool_runner<'a>(
        &'a self,
        task: &'a Task,
        agent: &'a AgentConfig,
        delegation: Delegation,
        tenant: Option<&'a str>,
    ) -> ToolRunner<'a> {
        let (toolbox, delegating) = (&self.toolbox, &self.delegating);
        ToolRunner { task, toolbox, agent, delegating, delegation, tenant }
    }
}

impl Handler for Agents {
    async fn run(&self, task: &mut Task) -> Result<End, Stop> {
        let agent = match AgentConfig::deserialize(&task.assignment().config) {
            Ok(agent) => agent,
            Err(error) => {
                return Ok(failed(
                    FailureKind::Internal,
                    format!("The task's configuration is invalid: {error}"),
                ));
            }
        };
        let subagents = self.subagents(task, &agent).await?;
        let agent = match agent.resolve_with_subagents(&subagents) {
            Ok(equipped) => {
                telemetry::log_missing_tools(task, &equipped.missing);
                equipped.config
            }
            Err(refusal) => return Ok(failed(FailureKind::Tool, refusal.message)),
        };
        let Some(chain) = self.models.chain(&agent.model) else {
            return Ok(failed(FailureKind::Model, self.models.unknown(&agent.model)));
        };
        let tenant = self.tenant(task).await?;
        let model = chain.current().model.clone();
        if !may_use(&agent, &model, tenant.as_deref()) {
            let why = format!("this task may not use the model {:?}", model.name());
            return Ok(failed(FailureKind::Model, prompts::model_error(why)));
        }
        let chain = chain.of(|fallback| may_use(&agent, fallback, tenant.as_deref()));
        let span = Span::current();
        span.record("gen_ai.provider.name", model.wire().as_str());
        span.record("gen_ai.request.model", model.model_id());
        self.run_turns(task, &agent, chain, tenant.as_deref()).await
    }

    fn abilities(&self) -> Abilities {
        self.toolbox.abilities(self.models.names())
    }

    async fn abilities_changed(&self, from: &Abilities) {
        self.toolbox.changed_until(|| self.abilities() != *from).await;
    }
}

/// Goes on with the next model, or waits until one opens, or ends the attempt.
async fn leave_model(
    task: &Task,
    chain: &mut ModelChain,
    closed_for: Option<Duration>,
    error: String,
    turns: &[StoredTurn],
) -> Option<End> {
    let left = chain.current().model.clone();
    match chain.leave_current(closed_for) {
        Following::TryNext => {
            let name = chain.current().model.name();
            tracing::info!(
                task.id = %task.id(),
                model.name = left.name(),
                model.fallback = name,
                "task {} falls back from model {} to {name}",
                task.id(),
                left.name()
            );
            None
        }
        Following::Wait(opens_in) if opens_in > LONGEST_WAIT => {
            Some(End::Released { delay: Some(spread(opens_in)) })
        }
        Following::Wait(opens_in) => {
            task.pause(spread(opens_in)).await;
            None
        }
        Following::GiveUp => Some(end(give_up(turns, FailureKind::Model, error))),
    }
}

/// Whether a task may use a model: it is granted, and it is for its tenant. The spawn has checked
/// both, but perhaps with another config.
fn may_use(agent: &AgentConfig, model: &Model, tenant: Option<&str>) -> bool {
    agent.grants().allows_model(model.name()) && is_for(model.tenants(), tenant)
}

/// Adds stored tool results to the last turn. If the database rejected a result, the model cannot
/// continue and another attempt would fail in the same way: the task fails.
fn add_results(
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

/// The turns of earlier attempts, and what their calls without an answer have cost.
async fn load_turns(task: &mut Task, agent: &AgentConfig) -> Result<Vec<StoredTurn>, Stop> {
    let turns = task.turns().await?;
    if task.attempt() > 1 && !agent.budget.is_unlimited() {
        task.load_broken_calls().await?;
    }
    Ok(turns)
}

fn add_turn(turns: &mut Vec<StoredTurn>, task: &Task, turn: Turn) {
    telemetry::log_turn(task, &turn);
    turns.push(StoredTurn {
        number: task.answers(),
        attempt: task.attempt(),
        turn,
        tool_results: Vec::new(),
    });
}

fn log_too_long(task: &Task, model: &Model) {
    tracing::info!(
        task.id = %task.id(),
        model.name = model.name(),
        "the conversation of task {} is too long for model {}",
        task.id(),
        model.name()
    );
}

fn end(outcome: Outcome) -> End {
    match outcome {
        Outcome::Completed { result, summary } => End::Completed { result, summary },
        Outcome::Failed { failure, error, partial_result } => {
            End::Failed { failure, error, partial_result }
        }
        // The loop never decides this: a cancel stops the attempt from outside.
        Outcome::Cancelled { partial_result } => End::Failed {
            failure: FailureKind::Internal,
            error: "Cancelled".to_owned(),
            partial_result,
        },
    }
}

fn failed(failure: FailureKind, error: String) -> End {
    End::Failed { failure, error, partial_result: None }
}
