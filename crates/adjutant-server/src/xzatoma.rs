//! The dialect of seed 003.

use adjutant_agent::dialects::Answer;
use adjutant_agent::dialects::xzatoma::{self, Call, Event, OVER_QUOTA, Wrong};
use adjutant_agent::{ErrorCode, Refusal, TaskId};
use adjutant_store::{EndedSubagent, Progress, TaskRecord};

use crate::dialect::{Begun, Made, Parent, Seat, Unnamed, ended_task};
use crate::{Desk, Dialect, Error, Result, ToolCall};

/// What stands where a task has its agent.
const AGENT: &str = "subagent";

pub(crate) async fn begin(desk: &Desk, seat: &Seat<'_>, call: &ToolCall, asked: &Call) -> Result<Begun> {
    let new = match asked {
        Call::GoOn(task) => return desk.begin_again(seat, *task).await,
        Call::New(new) => new,
    };
    let settings = &desk.policy.dialects.xzatoma;
    let Parent { tools, model } = desk.parent(seat).await?;
    let spec = new.spec(&tools, model, settings).map_err(refusal)?;
    let begins = Event::of_spawn(&spec, 1, desk.policy.operator.max_turns_ceiling);
    let task = Unnamed {
        agent: AGENT,
        spec,
        assignment: new.task_prompt.clone(),
        label: Some(new.label.clone()),
        metadata: new.metadata(),
    };
    let made = desk.begin_unnamed(seat, call, Dialect::Xzatoma, task).await;
    match &made {
        _ if !settings.telemetry_enabled => {}
        Ok(made) if made.is_new => begins.tell(&new.label),
        // A session that is full is refused with the same code.
        Err(Error::Refused(refusal)) if refusal.message.starts_with(OVER_QUOTA) => {
            Event::QuotaExceeded.tell(&new.label);
        }
        Ok(_) | Err(_) => {}
    }
    made.map(Made::begun)
}

fn refusal(Wrong(message): Wrong) -> Refusal {
    Refusal::new(ErrorCode::InvalidArgument, message)
}

/// How it went; and if the session's subagents had used too many tokens when it ended, only that.
pub(crate) async fn ended(desk: &Desk, seat: &Seat<'_>, record: &TaskRecord) -> Result<Answer> {
    let settings = &desk.policy.dialects.xzatoma;
    let task = ended_task(record)?;
    if let (Some(_), Some(at)) = (settings.quota.max_total_tokens, record.entry.finished_at) {
        let used = desk.store.tokens_until(seat.id, Dialect::Xzatoma.as_str(), at).await?;
        if let Err(wrong) = settings.quota.check_tokens(used) {
            return Ok(xzatoma::over_quota(&task, &wrong));
        }
    }
    Ok(xzatoma::ended(&task, settings))
}

impl Desk {
    /// Tells of those of these tasks whose ends are told, as the cancel has ended them: workers tell of what they end.
    pub(crate) async fn tell_cancelled(&self, tasks: &[TaskId]) {
        if tasks.is_empty() {
            return;
        }
        match self.store.ended_subagents(tasks).await {
            Ok(ended) => ended.iter().for_each(EndedSubagent::tell),
            Err(error) => tracing::warn!("cannot tell of subagents that were cancelled: {error}"),
        }
    }
}

pub(crate) fn goes_on(progress: &Progress) -> Answer {
    xzatoma::goes_on(progress.status.number, progress.status.label.as_deref())
}
