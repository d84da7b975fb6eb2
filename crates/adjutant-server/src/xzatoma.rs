//! The dialect of seed 003.

use adjutant_agent::dialects::Answer;
use adjutant_agent::dialects::xzatoma::{self, Call, Wrong};
use adjutant_agent::{ErrorCode, Refusal};
use adjutant_store::{Progress, TaskRecord};

use crate::dialect::{Begun, Seat, Unnamed, ended_task};
use crate::{Desk, Dialect, Result, ToolCall};

pub(crate) async fn begin(desk: &Desk, seat: &Seat<'_>, call: &ToolCall, asked: &Call) -> Result<Begun> {
    let new = match asked {
        Call::GoOn(task) => return desk.begin_again(seat, *task).await,
        Call::New(new) => new,
    };
    let settings = &desk.policy.dialects.xzatoma;
    let tools = desk.parent_tools(seat).await?;
    let model = desk.child_model(seat, None).await?;
    let task = Unnamed {
        agent: "subagent",
        spec: new.spec(&tools, model, settings).map_err(|Wrong(message)| refusal(message))?,
        assignment: new.task_prompt.clone(),
        label: Some(new.label.clone()),
        metadata: new.metadata(),
    };
    desk.begin_unnamed(seat, call, Dialect::Xzatoma, task).await
}

fn refusal(message: String) -> Refusal {
    Refusal::new(ErrorCode::InvalidArgument, message)
}

pub(crate) async fn ended(desk: &Desk, _seat: &Seat<'_>, record: &TaskRecord) -> Result<Answer> {
    Ok(xzatoma::ended(&ended_task(record)?, &desk.policy.dialects.xzatoma))
}

pub(crate) fn goes_on(progress: &Progress) -> Answer {
    xzatoma::goes_on(progress.status.number, progress.status.label.as_deref())
}
