//! The dialect of seed 002.

use std::time::Duration;

use adjutant_agent::dialects::ecs::{
    self, Call, Delegation, Lifecycle, Named, ReadMethod, Reading as Read, Record, Wait, bad_read_method,
    no_session,
};
use adjutant_agent::dialects::{Answer, DIALECT};
use adjutant_agent::{
    AgentSpec, Equipment, ErrorCode, MissingSkill, OnWorkerLoss, Refusal, SUBAGENT, Skill, TaskNumber,
    ToolConflict,
};
use adjutant_store::{NewDelegation, NewTask, Operator, Patience, Reading, TaskNewsAwaited};
use serde_json::{Map, json};
use uuid::Uuid;

use crate::dialect::{Begun, Seat};
use crate::key::Key;
use crate::{Desk, Dialect, Error, Result, ToolCall};

/// Sessions in the table of all.
const MOST_LISTED: i64 = 100;

pub(crate) async fn begin(desk: &Desk, seat: &Seat<'_>, call: &ToolCall, asked: &Call) -> Result<Begun> {
    match asked {
        Call::Subagent(new) => launch(desk, seat, call, new).await,
        Call::Status(None) => {
            let all = desk.store.readings(seat.id, MOST_LISTED).await?;
            let records: Vec<Record> = all.tasks.into_iter().map(record).collect();
            Ok(Begun::Over(ecs::sessions(all.count, &records)))
        }
        Call::Status(Some(of)) => Ok(Begun::Over(match found(desk, seat, of).await? {
            Some(record) => record.status(),
            None => no_session(&of.session_id),
        })),
        Call::Result(read) => result(desk, seat, read).await.map(Begun::Over),
        Call::Wait(wait) => wait_for_news(desk, seat, wait).await.map(Begun::Over),
        Call::Cancel(of) => cancel(desk, seat, of).await.map(Begun::Over),
    }
}

/// How a call that is not granted is answered.
pub(crate) fn refused(call: &Call, refusal: &Refusal) -> Answer {
    let message = refusal.message.as_str();
    match call {
        Call::Subagent(new) if refusal.code == ErrorCode::AgentNotFound => {
            let start: String = new.category.chars().take(64).collect();
            ecs::refused(SUBAGENT, None, &format!("Unknown subagent '{start}'"))
        }
        Call::Subagent(_) => ecs::refused(SUBAGENT, None, message),
        Call::Status(of) => ecs::refused(ecs::STATUS, of.as_ref().map(|of| of.session_id.as_str()), message),
        Call::Result(Read { of, .. }) | Call::Cancel(of) => {
            ecs::refused(ecs::RESULT, Some(&of.session_id), message)
        }
        Call::Wait(_) => ecs::refused(ecs::WAIT, None, message),
    }
}

async fn launch(desk: &Desk, seat: &Seat<'_>, call: &ToolCall, new: &Delegation) -> Result<Begun> {
    let settings = &desk.policy.dialects.ecs;
    let operator = &desk.policy.operator;
    let operator = Operator {
        default_timeout_s: settings.default_timeout.or(operator.default_timeout_s),
        ..operator.clone()
    };
    let (skills, missing_skills) = skills(desk, &new.load_skills);
    let equipment = Equipment {
        skills,
        inheritance: Some(settings.inheritance.clone()),
        sections: true,
        envelope: new.background,
    };
    let agent = desk.store.agent_for(seat.id, &new.category, &operator).await?;
    check(desk, seat, equipment.add_to(agent.definition.spec), &missing_skills).await?;
    let key = Key::of(call, Dialect::Ecs)?;
    let delegation = NewDelegation {
        task: NewTask {
            agent: new.category.clone(),
            assignment: new.prompt.clone(),
            metadata: Map::from_iter([(DIALECT.to_owned(), json!(Dialect::Ecs.as_str()))]),
            queue: true,
            traceparent: Some(traceparent(call)),
            ..NewTask::default()
        },
        timeout_s: new.timeout_s,
        equipment,
        any_length: true,
        ..NewDelegation::default()
    };
    let key = key.as_ref().map(Key::as_ref);
    let spawned = desk.store.delegate(seat.id, &delegation, &operator, key).await?;
    if !new.background {
        return Ok(Begun::Waits(spawned.number));
    }
    let record = record(desk.store.reading(seat.id, spawned.number).await?);
    Ok(Begun::Over(record.launched(&missing_skills)))
}

/// Those that the operator has, and the names of those that nobody has.
fn skills(desk: &Desk, names: &[String]) -> (Vec<Skill>, Vec<String>) {
    let (mut skills, mut missing) = (Vec::new(), Vec::new());
    for name in names {
        match desk.policy.skill("load_skills", name) {
            Ok(skill) => skills.push(skill.clone()),
            Err(_) => missing.push(name.clone()),
        }
    }
    (skills, missing)
}

/// Refuses what the agent's policy calls an error now, instead of failing the task later.
async fn check(desk: &Desk, seat: &Seat<'_>, mut spec: AgentSpec, missing_skills: &[String]) -> Result<()> {
    let policy = spec.inheritance.clone().unwrap_or_default();
    let is_strict = policy.missing_skill_policy == MissingSkill::Error;
    if let Some(name) = missing_skills.first() {
        if is_strict {
            let start: String = name.chars().take(64).collect();
            return Err(Refusal::invalid("load_skills", format_args!("Missing skill '{start}'")).into());
        }
        tracing::warn!(
            session.id = seat.name,
            skills.missing = missing_skills.len(),
            "a call names skills that nobody has"
        );
    }
    if is_strict || policy.tool_conflict_policy == ToolConflict::Error {
        spec.parent = Some(desk.store.session_details(seat.tenant, seat.name).await?.parent);
        spec.equipped()?;
    }
    Ok(())
}

/// The trace of the caller, or one of its own: both ends of a delegation tell the same.
fn traceparent(call: &ToolCall) -> String {
    call.traceparent().unwrap_or_else(|| {
        let (trace, span) = (Uuid::new_v4().simple().to_string(), Uuid::new_v4().simple().to_string());
        format!("00-{trace}-{}-01", &span[..16])
    })
}

/// What a call in the foreground answers when its task has ended. Who is told that is told no more of it.
pub(crate) async fn ended(desk: &Desk, seat: &Seat<'_>, task: TaskNumber) -> Result<Answer> {
    let answer = record(desk.store.reading(seat.id, task).await?).ended();
    desk.store.told_of(seat.id, task).await?;
    Ok(answer)
}

pub(crate) async fn goes_on(desk: &Desk, seat: &Seat<'_>, task: TaskNumber) -> Result<Answer> {
    Ok(record(desk.store.reading(seat.id, task).await?).goes_on())
}

async fn found(desk: &Desk, seat: &Seat<'_>, of: &Named) -> Result<Option<Record>> {
    let Some(task) = of.task else { return Ok(None) };
    match desk.store.reading(seat.id, task).await.map_err(Error::from) {
        Ok(reading) => Ok(Some(record(reading))),
        Err(error) if error.code() == ErrorCode::TaskNotFound => Ok(None),
        Err(error) => Err(error),
    }
}

async fn result(desk: &Desk, seat: &Seat<'_>, read: &Read) -> Result<Answer> {
    let Some(method) = ReadMethod::of(&read.read_method) else {
        return Ok(bad_read_method(&read.of.session_id, &read.read_method));
    };
    let longest = longest(desk, read.timeout);
    let mut vigil = desk.watch_for(seat.id, longest);
    loop {
        let patience = vigil.patience();
        let Some(record) = found(desk, seat, &read.of).await? else {
            return Ok(no_session(&read.of.session_id));
        };
        if record.lifecycle.is_terminal() {
            return Ok(record.result(method));
        }
        if patience == Patience::LastLook {
            return Ok(record.not_ready(method, longest));
        }
        vigil.rest().await;
    }
}

/// As long as the caller says, and never longer than a call may take.
fn longest(desk: &Desk, wanted: Option<Duration>) -> Duration {
    let longest = desk.policy.dialects.longest_wait;
    wanted.map_or(longest, |wanted| wanted.min(longest))
}

async fn wait_for_news(desk: &Desk, seat: &Seat<'_>, wait: &Wait) -> Result<Answer> {
    let mut tasks = None;
    for of in wait.sessions.iter().flatten() {
        match found(desk, seat, of).await? {
            Some(record) => tasks.get_or_insert_with(Vec::new).push(record.number),
            None => return Ok(no_session(&of.session_id)),
        }
    }
    let longest = longest(desk, wait.timeout);
    let mut awaited = TaskNewsAwaited::of(tasks.as_deref());
    let mut vigil = desk.watch_for(seat.id, longest);
    loop {
        let patience = vigil.patience();
        let news = desk.store.look_for_news(seat.id, &mut awaited, patience).await?;
        if !news.told.is_empty() {
            let records: Vec<Record> = news.told.into_iter().map(record).collect();
            return Ok(ecs::notification(&records));
        }
        if news.met {
            return nothing_to_tell(desk, seat, wait).await;
        }
        if patience == Patience::LastLook {
            let gives_up = wait.timeout.filter(|wanted| *wanted <= longest && !desk.stopping.is_cancelled());
            let active: Vec<TaskNumber> = awaited.active().collect();
            return Ok(gives_up.map_or_else(|| ecs::still_waiting(&active), ecs::wait_timed_out));
        }
        vigil.rest().await;
    }
}

/// All that was asked about has ended, and its news were told before.
async fn nothing_to_tell(desk: &Desk, seat: &Seat<'_>, wait: &Wait) -> Result<Answer> {
    let mut records = Vec::new();
    for of in wait.sessions.iter().flatten() {
        records.extend(found(desk, seat, of).await?);
    }
    Ok(ecs::nothing_to_tell(&records))
}

async fn cancel(desk: &Desk, seat: &Seat<'_>, of: &Named) -> Result<Answer> {
    let Some(record) = found(desk, seat, of).await? else { return Ok(no_session(&of.session_id)) };
    if record.lifecycle.is_terminal() {
        return Ok(record.already_terminal());
    }
    let cancelled = desk.store.cancel_by_number(seat.id, record.number).await?;
    desk.tell_cancelled(&cancelled.ended).await;
    if cancelled.changed {
        return Ok(record.cancelled());
    }
    // It ended a moment ago.
    Ok(found(desk, seat, of).await?.map_or_else(|| no_session(&of.session_id), |now| now.already_terminal()))
}

fn record(reading: Reading) -> Record {
    let status = reading.progress.status;
    let lifecycle = Lifecycle::of(status.state, status.failure, status.attempt);
    Record {
        id: status.id,
        number: status.number,
        category: status.agent,
        lifecycle,
        queue_position: reading.progress.queue_position,
        timeout_s: reading.timeout_s,
        result: reading.result,
        summary: reading.summary,
        not_resumed: status.failure == Some(adjutant_agent::FailureKind::Lost)
            && reading.on_worker_loss == OnWorkerLoss::Fail,
        error: status.error,
    }
}
