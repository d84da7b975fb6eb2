//! caliban's `AgentTool`: a prompt, and the child's last text. The source has no queue and no
//! states: its caller waits.

mod answers;
mod call;
mod tool;

#[cfg(test)]
mod tests;

use adjutant_agent::{Refusal, TextLimits, ToolDefinition};
use adjutant_store::TaskView;
use serde_json::{Value, json};

use crate::blocking::{UnnamedTask, ended_task};
use crate::implementation::{Implementation, Rejected, check_tool};
use crate::parent::Parent;
use crate::{Answer, Context, NoSettings, Result, SessionRef, Started, ToolCall};

use call::Call;
use tool::AGENT_TOOL;

pub type Settings = NoSettings;

pub(crate) struct Tools;

impl Implementation for Tools {
    const NAME: &'static str = "caliban";
    const DELEGATION_TOOLS: &'static [&'static str] = &[AGENT_TOOL];
    const INSTRUCTIONS: &'static str = crate::task_handle::INSTRUCTIONS;

    type Call = Call;

    fn tools(_: &TextLimits) -> Vec<ToolDefinition> {
        vec![tool::tool()]
    }

    fn parse(call: &ToolCall, _: &TextLimits) -> Result<Call, Rejected> {
        check_tool::<Self>(&call.tool)?;
        Call::parse(&call.arguments).map_err(|refusal| Rejected::Answer(answers::refused(&refusal)))
    }

    fn can_open_session(call: &Call) -> bool {
        matches!(call, Call::New(_))
    }

    fn waits_for_task(_call: &Call) -> bool {
        true
    }

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
        let Parent { tools, model } = context.parent(session).await?;
        let model = match &new.model {
            Some(name) => context.model(name)?.to_owned(),
            None => model,
        };
        let task = UnnamedTask {
            agent: "agent-tool",
            config: new.agent_config(&tools, model),
            assignment: new.prompt.clone(),
            label: None,
            metadata: new.metadata(&tools),
            quota: None,
        };
        let spawned = context.spawn_unnamed(session, call, Self::NAME, task).await?;
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
        Ok(answers::ended(&ended_task(&record)?))
    }

    async fn still_running(
        _context: &Context<'_>,
        _session: &SessionRef<'_>,
        task: &TaskView,
    ) -> Result<Answer> {
        Ok(answers::still_running(task.number))
    }

    async fn prompt(_context: &Context<'_>, _session: &SessionRef<'_>) -> Result<String> {
        Ok(tool::PROMPT.to_owned())
    }

    fn answer_schema() -> Value {
        json!({
            "type": "object", "title": "The answer of caliban",
            "properties": {
                "type": {"const": "text"}, "text": {"type": "string"},
                "is_error": {"const": true}, "task_id": {"type": "string"},
                "dropped_tools": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["type", "text"],
        })
    }
}
