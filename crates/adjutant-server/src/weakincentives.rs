//! The dialect of seed 004.

use adjutant_agent::dialects::Answer;
use adjutant_agent::dialects::weakincentives::{self, Call, Dispatch};
use adjutant_agent::{AgentSpec, ErrorCode, Refusal, check_agent_name, tools_used};
use adjutant_store::{Agent, NewTask, Progress, TaskContext, TaskRecord};
use serde::Deserialize;

use crate::dialect::{Begun, Seat, ended_task};
use crate::key::Key;
use crate::{Desk, Dialect, Error, Result, ToolCall};

/// Makes a task with a snapshot of the session's shared context. It waits for room in its session, as its caller waits anyway.
pub(crate) async fn begin(desk: &Desk, seat: &Seat<'_>, call: &ToolCall, asked: &Call) -> Result<Begun> {
    let new = match asked {
        Call::GoOn(task) => return desk.begin_again(seat, *task).await,
        Call::New(new) => new,
    };
    let key = Key::of(call, Dialect::Weakincentives)?;
    let agent = prompt(desk, seat, new).await?;
    let on_worker_loss = agent.definition.on_worker_loss;
    let task = NewTask {
        agent: new.agent(),
        agent_version: agent.version,
        config: desk.policy.operator.config_of(spec(desk, seat, new, agent.definition.spec).await?)?,
        assignment: new.instructions.clone(),
        label: new.plan_step_id.clone(),
        metadata: new.metadata(),
        queue: true,
        on_worker_loss,
        traceparent: call.traceparent(),
        context: TaskContext::Snapshot,
        ..NewTask::default()
    };
    let spawned = desk.store.spawn(seat.id, &[task], key.as_ref().map(Key::as_ref)).await?;
    let first = spawned.first().ok_or_else(|| Error::bug(&"a spawn of one made none"))?;
    Ok(Begun::Waits(first.number))
}

/// The agent that a call names by namespace and key.
async fn prompt(desk: &Desk, seat: &Seat<'_>, new: &Dispatch) -> Result<Agent> {
    let name = new.agent();
    let missing = || {
        let (ns, key): (String, String) = (start(&new.prompt_ns), start(&new.prompt_key));
        Refusal::new(ErrorCode::AgentNotFound, format!("There is no prompt {key:?} in {ns:?}"))
    };
    // What is no name cannot be there.
    check_agent_name(&name).map_err(|_| missing())?;
    match desk.store.agent(seat.id, &name).await {
        Err(adjutant_store::Error::Refused(refusal)) if refusal.code == ErrorCode::AgentNotFound => {
            Err(missing().into())
        }
        agent => Ok(agent?),
    }
}

fn start(text: &str) -> String {
    text.chars().take(64).collect()
}

async fn spec(desk: &Desk, seat: &Seat<'_>, new: &Dispatch, agent: AgentSpec) -> Result<AgentSpec> {
    let parent = desk.parent(seat).await?;
    let model = if agent.model.is_empty() { parent.model } else { agent.model.clone() };
    Ok(new.spec(agent, parent.tools, model))
}

pub(crate) async fn ended(desk: &Desk, record: &TaskRecord) -> Result<Answer> {
    let agent = AgentSpec::deserialize(&record.config).map_err(|error| Error::bug(&error))?;
    let turns = desk.store.turns(record.entry.id).await?;
    Ok(weakincentives::ended(&ended_task(record)?, &tools_used(&agent, &turns)))
}

pub(crate) fn goes_on(progress: &Progress) -> Answer {
    weakincentives::goes_on(progress.status.number)
}

/// How a refusal is said: an unknown prompt is a matter of what was asked, all else of what is possible now.
pub(crate) fn refused(refusal: &Refusal) -> Answer {
    if matches!(refusal.code, ErrorCode::AgentNotFound | ErrorCode::InvalidArgument) {
        weakincentives::invalid(refusal)
    } else {
        weakincentives::refused(refusal)
    }
}
