//! `subagent` and its four companions of ecs_agent's SubagentSystem: sessions in the foreground and
//! in the background. The source's session is a task, named by its number in our session.

mod call;
mod lists;
mod prompt;
mod record;
mod run;
mod settings;
mod tools;

#[cfg(test)]
mod tests;

use adjutant_agent::{ErrorCode, Refusal, SUBAGENT, TextLimits, ToolDefinition};
use adjutant_store::TaskView;

pub use call::Call;
pub use settings::Settings;

use crate::implementation::{Implementation, Rejected, check_tool};
use crate::{Answer, Context, Result, SessionRef, Setting, Started, ToolCall};

use call::{CANCEL, RESULT, STATUS, WAIT};
use prompt::{Categories, orchestrator_prompt};

pub(crate) struct Tools;

impl Implementation for Tools {
    const NAME: &'static str = "ecs";
    const DELEGATION_TOOLS: &'static [&'static str] = &[SUBAGENT, STATUS, RESULT, WAIT, CANCEL];
    /// `session_id` is the source's word for a task.
    const SESSION_ARGUMENT: &'static str = "adjutant_session_id";
    const INSTRUCTIONS: &'static str = "Delegates work to agents that run on their own and survive restarts. subagent waits for its task, or with background lets it work beside you; a call that takes longer than 45 seconds answers with a session_id. subagent_wait tells which sessions have ended, subagent_result reads their results. Delegate what takes several steps or can run beside your own work.";
    const SETTINGS: &'static [Setting] = settings::SETTINGS;

    type Call = Call;

    fn tools(_: &TextLimits) -> Vec<ToolDefinition> {
        tools::tools()
    }

    /// The source raises on invalid arguments, so they are no answer of the tool.
    fn parse(call: &ToolCall, _: &TextLimits) -> Result<Call, Rejected> {
        check_tool::<Self>(&call.tool)?;
        Ok(Call::parse(&call.tool, &call.arguments)?)
    }

    fn can_open_session(call: &Call) -> bool {
        matches!(call, Call::Subagent(_))
    }

    fn waits_for_task(call: &Call) -> bool {
        matches!(call, Call::Subagent(new) if !new.background)
    }

    fn start_waits(call: &Call) -> bool {
        let timeout = match call {
            Call::Result(call::ResultCall { timeout, .. })
            | Call::Wait(call::Wait { timeout, .. }) => timeout,
            Call::Subagent(_) | Call::Status(_) | Call::Cancel(_) => return false,
        };
        timeout.is_none_or(|timeout| !timeout.is_zero())
    }

    fn polls_status(call: &Call) -> bool {
        matches!(call, Call::Status(_))
    }

    async fn start(
        context: &Context<'_>,
        session: &SessionRef<'_>,
        call: &ToolCall,
        parsed: &Call,
    ) -> Result<Started> {
        run::start(context, session, call, parsed).await
    }

    fn refused(call: &Call, refusal: &Refusal) -> Option<Answer> {
        let message = refusal.message.as_str();
        Some(match call {
            Call::Subagent(new) if refusal.code == ErrorCode::AgentNotFound => {
                let start: String = new.category.chars().take(64).collect();
                record::refused(SUBAGENT, None, &format!("Unknown subagent '{start}'"))
            }
            Call::Subagent(_) => record::refused(SUBAGENT, None, message),
            Call::Status(of) => {
                record::refused(STATUS, of.as_ref().map(|of| of.session_id.as_str()), message)
            }
            Call::Result(call::ResultCall { of, .. }) | Call::Cancel(of) => {
                record::refused(RESULT, Some(&of.session_id), message)
            }
            Call::Wait(_) => record::refused(WAIT, None, message),
        })
    }

    async fn ended(
        context: &Context<'_>,
        session: &SessionRef<'_>,
        task: &TaskView,
    ) -> Result<Answer> {
        let details = context.store.task_details(session.id, task.number).await?;
        Ok(run::record(details).ended())
    }

    async fn still_running(
        context: &Context<'_>,
        session: &SessionRef<'_>,
        task: &TaskView,
    ) -> Result<Answer> {
        let task = context.store.task_details(session.id, task.number).await?;
        Ok(run::record(task).still_running())
    }

    async fn prompt(context: &Context<'_>, session: &SessionRef<'_>) -> Result<String> {
        let agents = context.store.agents(session.id).await?;
        let agents = agents.iter().map(|agent| &agent.definition);
        let agents = agents.map(|agent| (agent.name.as_str(), agent.description.as_str()));
        let details = context.store.session_details(session.tenant, session.name).await?;
        let mut parent = details.parent;
        parent.tools.retain(|tool| context.grants().allows_tool(tool));
        let any_name = context.policy.operator.free_form.is_some();
        let categories = if any_name { Categories::AnyName } else { Categories::Registered };
        Ok(orchestrator_prompt(&parent, agents, categories))
    }
}
