//! The dialect of seed 001.

use adjutant_agent::dialects::Answer;
use adjutant_agent::dialects::caliban::{self, Call};
use adjutant_store::{Progress, TaskRecord};

use crate::dialect::{Begun, Made, Seat, Unnamed, ended_task};
use crate::{Desk, Dialect, Result, ToolCall};

pub(crate) async fn begin(desk: &Desk, seat: &Seat<'_>, call: &ToolCall, asked: &Call) -> Result<Begun> {
    let new = match asked {
        Call::GoOn(task) => return desk.begin_again(seat, *task).await,
        Call::New(new) => new,
    };
    let tools = desk.parent_tools(seat).await?;
    let model = desk.child_model(seat, new.model.as_deref()).await?;
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
