use crate::fields::{Fields, text_in};
use crate::subagent_call::number;
use crate::{Refusal, TaskNumber};

/// What every call that waits can say: the task that an earlier one was about, to wait for it again.
pub(crate) const TASK_ID: &str = "task_id";

pub(crate) const ABOUT_TASK_ID: &str = "Only to wait again: the task_id of an answer that said that the work goes on. The other fields do not count then.";

/// The task that a call goes on to wait for, if it names one. Then its other fields do not count: clients that check what they
/// send against the schema have to fill in those that are required.
pub(crate) fn task_to_go_on_with(fields: &mut Fields) -> Result<Option<TaskNumber>, Refusal> {
    let Some(value) = fields.take(TASK_ID) else { return Ok(None) };
    number(TASK_ID, text_in(TASK_ID, value)?).map(Some)
}

/// How to go on, for whoever reads the answer.
pub(crate) fn how_to_go_on(tool: &str, task: TaskNumber) -> String {
    format!("It goes on as task {task}. Call {tool} with {{\"task_id\": \"{task}\"}} to wait for it again.")
}
