use std::time::Duration;

use adjutant_agent::{
    AgentExtras, ErrorCode, FailureKind, MissingSkill, OnWorkerLoss, Refusal, Skill, TaskNumber,
};
use adjutant_store::{Check, NewDelegation, NewTask, NotificationWait, Operator, TaskView};
use serde_json::{Map, json};
use uuid::Uuid;

use super::Tools;
use super::call::{Call, Delegation, NamedSession, ReadMethod, ResultCall, Wait};
use super::lists;
use super::record::{Launched, Lifecycle, Record, bad_read_method, no_session};
use crate::idempotency::CallKey;
use crate::implementation::Implementation;
use crate::{Answer, Context, Error, METADATA_DIALECT, Result, SessionRef, Started, ToolCall};

/// The most sessions in the table of `subagent_status`.
const MOST_LISTED: i64 = 100;

pub(super) async fn start(
    context: &Context<'_>,
    session: &SessionRef<'_>,
    call: &ToolCall,
    parsed: &Call,
) -> Result<Started> {
    match parsed {
        Call::Subagent(new) => launch(context, session, call, new).await,
        Call::Status(None) => {
            let all = context.store.session_tasks(session.id, MOST_LISTED).await?;
            let records: Vec<Record> = all.tasks.into_iter().map(record).collect();
            Ok(Started::Answered(lists::sessions(all.count, &records)))
        }
        Call::Status(Some(of)) => {
            Ok(Started::Answered(match found(context, session, of).await? {
                Some(record) => record.status(),
                None => no_session(&of.session_id),
            }))
        }
        Call::Result(read) => result(context, session, read).await.map(Started::Answered),
        Call::Wait(wait) => {
            wait_for_notifications(context, session, wait).await.map(Started::Answered)
        }
        Call::Cancel(of) => cancel(context, session, of).await.map(Started::Answered),
    }
}

async fn launch(
    context: &Context<'_>,
    session: &SessionRef<'_>,
    call: &ToolCall,
    new: &Delegation,
) -> Result<Started> {
    let settings = &context.policy.dialects.ecs;
    let operator = &context.policy.operator;
    let operator = Operator {
        default_timeout_s: settings.default_timeout.or(operator.default_timeout_s),
        ..operator.clone()
    };
    let (skills, missing_skills) = skills(context, &new.load_skills);
    let equipment = AgentExtras {
        skills,
        inheritance: Some(settings.inheritance.clone()),
        sections: true,
        envelope: new.background,
    };
    let delegation = NewDelegation {
        task: NewTask {
            agent: new.category.clone(),
            assignment: new.prompt.clone(),
            metadata: Map::from_iter([(METADATA_DIALECT.to_owned(), json!(Tools::NAME))]),
            queue: true,
            traceparent: Some(traceparent(call)),
            ..NewTask::default()
        },
        timeout_s: new.timeout_s,
        equipment,
        any_length: true,
        ..NewDelegation::default()
    };
    let key = CallKey::of(call, Tools::NAME)?;
    let key = key.as_ref().map(CallKey::as_ref);
    let store = context.store;
    let spawned =
        match store.delegate_unless_strict(session.id, &delegation, &operator, key).await? {
            Some(spawned) => spawned,
            None => {
                check_inheritance(context, session, &delegation, &operator, &missing_skills)
                    .await?;
                store.delegate(session.id, &delegation, &operator, key).await?
            }
        };
    warn_of_missing(session, &missing_skills);
    if !new.background {
        return Ok(Started::Waiting(spawned.number));
    }
    let launched =
        Launched { number: spawned.number, category: &new.category, timeout_s: spawned.timeout_s };
    Ok(Started::Answered(launched.answer(&missing_skills)))
}

/// The named skills, and the names of skills that do not exist.
fn skills(context: &Context<'_>, names: &[String]) -> (Vec<Skill>, Vec<String>) {
    let (mut skills, mut missing) = (Vec::new(), Vec::new());
    for name in names {
        match context.policy.skill("load_skills", name) {
            Ok(skill) => skills.push(skill.clone()),
            Err(_) => missing.push(name.clone()),
        }
    }
    (skills, missing)
}

/// Refuses now what a strict inheritance policy calls an error, instead of failing the task later.
async fn check_inheritance(
    context: &Context<'_>,
    session: &SessionRef<'_>,
    new: &NewDelegation,
    operator: &Operator,
    missing_skills: &[String],
) -> Result<()> {
    let agent = context.store.agent_for(session.id, &new.task.agent, operator).await?;
    let mut config = new.equipment.add_to(agent.definition.config);
    let policy = config.inheritance.clone().unwrap_or_default();
    if let (Some(name), MissingSkill::Error) = (missing_skills.first(), policy.missing_skill_policy)
    {
        let start: String = name.chars().take(64).collect();
        return Err(Refusal::invalid("load_skills", format_args!("Missing skill '{start}'")).into());
    }
    config.parent = Some(context.store.session_details(session.tenant, session.name).await?.parent);
    config.resolve()?;
    Ok(())
}

fn warn_of_missing(session: &SessionRef<'_>, skills: &[String]) {
    if !skills.is_empty() {
        tracing::warn!(
            session.id = session.name,
            skills.missing = skills.len(),
            "a call names skills that do not exist"
        );
    }
}

/// The trace of the caller, or a new one, so that both events of a delegation share a trace.
fn traceparent(call: &ToolCall) -> String {
    call.traceparent().unwrap_or_else(|| {
        let (trace, span) =
            (Uuid::new_v4().simple().to_string(), Uuid::new_v4().simple().to_string());
        format!("00-{trace}-{}-01", &span[..16])
    })
}

async fn found(
    context: &Context<'_>,
    session: &SessionRef<'_>,
    of: &NamedSession,
) -> Result<Option<Record>> {
    let Some(task) = of.task else { return Ok(None) };
    match context.store.task_details(session.id, task).await {
        Ok(reading) => Ok(Some(record(reading))),
        Err(Error::Refused(refusal)) if refusal.code == ErrorCode::TaskNotFound => Ok(None),
        Err(error) => Err(error),
    }
}

async fn result(
    context: &Context<'_>,
    session: &SessionRef<'_>,
    read: &ResultCall,
) -> Result<Answer> {
    let Some(method) = ReadMethod::of(&read.read_method) else {
        return Ok(bad_read_method(&read.of.session_id, &read.read_method));
    };
    let longest = longest(context, read.timeout);
    let mut wait_loop = context.wait_loop(session.id, longest);
    loop {
        let check = wait_loop.check();
        let Some(record) = found(context, session, &read.of).await? else {
            return Ok(no_session(&read.of.session_id));
        };
        if record.lifecycle.is_terminal() {
            return Ok(record.result(method));
        }
        if check == Check::Last {
            return Ok(record.not_ready(method, longest));
        }
        wait_loop.rest().await;
    }
}

/// The caller's timeout, at most as long as a call may take.
fn longest(context: &Context<'_>, wanted: Option<Duration>) -> Duration {
    let longest = context.policy.dialects.longest_wait;
    wanted.map_or(longest, |wanted| wanted.min(longest))
}

async fn wait_for_notifications(
    context: &Context<'_>,
    session: &SessionRef<'_>,
    wait: &Wait,
) -> Result<Answer> {
    let mut tasks = None;
    for of in wait.sessions.iter().flatten() {
        match found(context, session, of).await? {
            Some(record) => tasks.get_or_insert_with(Vec::new).push(record.number),
            None => return Ok(no_session(&of.session_id)),
        }
    }
    let longest = longest(context, wait.timeout);
    let mut awaited = NotificationWait::of(tasks.as_deref());
    let mut wait_loop = context.wait_loop(session.id, longest);
    loop {
        let check = wait_loop.check();
        let unread = context.store.check_notifications(session.id, &mut awaited, check).await?;
        if !unread.tasks.is_empty() {
            let records: Vec<Record> = unread.tasks.into_iter().map(record).collect();
            return Ok(lists::notification(&records));
        }
        if unread.met {
            return nothing_new(context, session, wait).await;
        }
        if check == Check::Last {
            let gives_up = wait
                .timeout
                .filter(|wanted| *wanted <= longest && !context.stopping.is_cancelled());
            let active: Vec<TaskNumber> = awaited.active().collect();
            return Ok(
                gives_up.map_or_else(|| lists::still_waiting(&active), lists::wait_timed_out)
            );
        }
        wait_loop.rest().await;
    }
}

/// The answer when all sessions have ended and their notifications were read before.
async fn nothing_new(
    context: &Context<'_>,
    session: &SessionRef<'_>,
    wait: &Wait,
) -> Result<Answer> {
    let mut records = Vec::new();
    for of in wait.sessions.iter().flatten() {
        records.extend(found(context, session, of).await?);
    }
    Ok(lists::nothing_new(&records))
}

async fn cancel(
    context: &Context<'_>,
    session: &SessionRef<'_>,
    of: &NamedSession,
) -> Result<Answer> {
    let Some(record) = found(context, session, of).await? else {
        return Ok(no_session(&of.session_id));
    };
    if record.lifecycle.is_terminal() {
        return Ok(record.already_terminal());
    }
    let cancelled = context.store.cancel_by_number(session.id, record.number).await?;
    context.log_cancelled(&cancelled.ended).await;
    if cancelled.changed {
        return Ok(record.cancelled());
    }
    // It ended a moment ago.
    Ok(found(context, session, of)
        .await?
        .map_or_else(|| no_session(&of.session_id), |now| now.already_terminal()))
}

pub(super) fn record(task: TaskView) -> Record {
    let details = task.details.unwrap_or_default();
    Record {
        id: task.id,
        number: task.number,
        category: task.agent,
        lifecycle: Lifecycle::of(task.state, task.failure, task.attempt),
        queue_position: task.queue_position,
        timeout_s: details.timeout_s,
        result: details.result,
        summary: details.summary,
        not_resumed: task.failure == Some(FailureKind::Lost)
            && task.on_worker_loss == OnWorkerLoss::Fail,
        error: task.error,
    }
}
