//! weakincentives' `dispatch_subagent`: instructions for a prompt of the registry, a snapshot of
//! the parent's context, and a summary with the delivered artifacts. The child's own state ends
//! with it.

mod answers;
mod artifacts;
mod call;
mod snapshot;
mod tool;

#[cfg(test)]
mod tests;

use adjutant_agent::{
    AgentConfig, ErrorCode, Refusal, TextLimits, ToolDefinition, check_agent_name, tools_used,
};
use adjutant_store::{Agent, NewDelegation, NewTask, TaskContext, TaskView};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::blocking::ended_task;
use crate::error::bug;
use crate::idempotency::CallKey;
use crate::implementation::{Implementation, Rejected, check_tool};
use crate::{Answer, Context, Error, NoSettings, Result, SessionRef, Started, ToolCall};

use call::{Call, Dispatch};
use snapshot::SnapshotSummary;
use tool::DISPATCH_SUBAGENT;

pub type Settings = NoSettings;

pub(crate) struct Tools;

impl Implementation for Tools {
    const NAME: &'static str = "weakincentives";
    const DELEGATION_TOOLS: &'static [&'static str] = &[DISPATCH_SUBAGENT];
    const INSTRUCTIONS: &'static str = crate::task_handle::INSTRUCTIONS;

    type Call = Call;

    fn tools(_: &TextLimits) -> Vec<ToolDefinition> {
        vec![tool::tool()]
    }

    fn parse(call: &ToolCall, _: &TextLimits) -> Result<Call, Rejected> {
        check_tool::<Self>(&call.tool)?;
        Call::parse(&call.arguments).map_err(|refusal| Rejected::Answer(answers::invalid(&refusal)))
    }

    fn can_open_session(call: &Call) -> bool {
        matches!(call, Call::New(_))
    }

    fn waits_for_task(_call: &Call) -> bool {
        true
    }

    /// Spawns a task with a snapshot of the session's shared context. It is queued instead of
    /// refused when the session is full, because its caller waits anyway.
    async fn start(
        context: &Context<'_>,
        session: &SessionRef<'_>,
        call: &ToolCall,
        parsed: &Call,
    ) -> Result<Started> {
        let new = match parsed {
            Call::WaitAgain(task) => return context.wait_again(session, *task).await,
            Call::New(new) => new,
        };
        let key = CallKey::of(call, Self::NAME)?;
        let agent = prompt(context, session, new).await?;
        let on_worker_loss = agent.definition.on_worker_loss;
        let config = agent_config(context, session, new, agent.definition.config).await?;
        let task = NewTask {
            agent: new.agent(),
            agent_version: agent.version,
            assignment: new.instructions.clone(),
            label: new.plan_step_id.clone(),
            metadata: new.metadata(),
            queue: true,
            on_worker_loss,
            traceparent: call.traceparent(),
            context: TaskContext::Snapshot,
            ..NewTask::default()
        };
        let key = key.as_ref().map(CallKey::as_ref);
        let new = NewDelegation {
            task,
            config: Some(config),
            any_length: true,
            ..NewDelegation::default()
        };
        let spawned =
            context.store.delegate(session.id, &new, &context.policy.operator, key).await?;
        Ok(Started::Waiting(spawned.number))
    }

    fn refused(_call: &Call, refusal: &Refusal) -> Option<Answer> {
        Some(answers::refused(refusal))
    }

    async fn ended(
        context: &Context<'_>,
        session: &SessionRef<'_>,
        task: &TaskView,
    ) -> Result<Answer> {
        let record = context.store.task(session.tenant, task.id).await?;
        let agent = AgentConfig::deserialize(&record.config).map_err(|error| bug(&error))?;
        let turns = context.store.turns(record.entry.task.id).await?;
        Ok(answers::ended(&ended_task(&record)?, &tools_used(&agent, &turns)))
    }

    async fn still_running(
        _context: &Context<'_>,
        _session: &SessionRef<'_>,
        task: &TaskView,
    ) -> Result<Answer> {
        Ok(answers::still_running(task.number, &task.agent))
    }

    async fn prompt(context: &Context<'_>, session: &SessionRef<'_>) -> Result<String> {
        let agents = context.store.agents(session.id).await?;
        let agents = agents.iter().map(|agent| &agent.definition);
        Ok(tool::orchestrator_prompt(
            agents.map(|agent| (agent.name.as_str(), agent.description.as_str())),
        ))
    }

    fn answer_schema() -> Value {
        json!({
            "type": "object", "title": "The answer of weakincentives",
            "properties": {
                "success": {"type": "boolean"}, "message": {"type": "string"},
                "prompt_ns": {"type": "string"}, "prompt_key": {"type": "string"}, "message_summary": {"type": "string"},
                "artifacts": {"type": "array", "items": {"type": "string"}},
                "tools_used": {"type": "array", "items": {"type": "string"}},
                "error": {"type": "string"}, "task_id": {"type": "string"},
            },
            "required": ["message"],
        })
    }
}

/// The agent that a call names by namespace and key.
async fn prompt(context: &Context<'_>, session: &SessionRef<'_>, new: &Dispatch) -> Result<Agent> {
    let name = new.agent();
    let missing = || {
        let (ns, key): (String, String) = (start(&new.prompt_ns), start(&new.prompt_key));
        Refusal::new(ErrorCode::AgentNotFound, format!("There is no prompt {key:?} in {ns:?}"))
    };
    // A text that is no agent name names no agent.
    check_agent_name(&name).map_err(|_| missing())?;
    match context.store.agent(session.id, &name).await {
        Err(Error::Refused(refusal)) if refusal.code == ErrorCode::AgentNotFound => {
            Err(missing().into())
        }
        agent => agent,
    }
}

fn start(text: &str) -> String {
    text.chars().take(64).collect()
}

async fn agent_config(
    context: &Context<'_>,
    session: &SessionRef<'_>,
    new: &Dispatch,
    agent: AgentConfig,
) -> Result<AgentConfig> {
    let parent = context.parent(session).await?;
    let model = if agent.model.is_empty() { parent.model } else { agent.model.clone() };
    let snapshot = SnapshotSummary::of(context, session.id).await?;
    Ok(new.agent_config(agent, parent.tools, model, &snapshot))
}
