//! The dialect of seed 001.

use adjutant_agent::dialects::Answer;
use adjutant_agent::dialects::caliban::{self, Call};
use adjutant_store::{Progress, TaskRecord};

use crate::dialect::{Begun, Made, Parent, Seat, Unnamed, ended_task};
use crate::{Desk, Dialect, Result, ToolCall};

pub(crate) async fn begin(desk: &Desk, seat: &Seat<'_>, call: &ToolCall, asked: &Call) -> Result<Begun> {
    let new = match asked {
        Call::GoOn(task) => return desk.begin_again(seat, *task).await,
        Call::New(new) => new,
    };
    let Parent { tools, model } = desk.parent(seat).await?;
    let model = match &new.model {
        Some(name) => desk.policy.model(name)?.to_owned(),
        None => model,
    };
    let task = Unnamed {
        agent: "agent-tool",
        spec: new.spec(&tools, model),
        assignment: new.prompt.clone(),
        label: None,
        metadata: new.metadata(&tools),
    };
    desk.begin_unnamed(seat, call, Dialect::Caliban, task).await.map(Made::begun)
}

pub(crate) fn ended(record: &TaskRecord) -> Result<Answer> {
    Ok(caliban::ended(&ended_task(record)?))
}

pub(crate) fn goes_on(progress: &Progress) -> Answer {
    caliban::goes_on(progress.status.number)
}
