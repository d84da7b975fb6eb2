//! xzatoma's `subagent`: a labelled task, its summary, and an object with the outcome. The source
//! fixes the messages.

mod answers;
mod call;
mod events;
mod nested;
mod settings;
mod telemetry;
mod tool;

#[cfg(test)]
mod tests;

use adjutant_agent::{Depth, ErrorCode, Refusal, SUBAGENT, TextLimits, ToolDefinition};
use adjutant_store::{LoggedEnd, QUOTA_EXCEEDED, Store, TaskView};
use serde_json::{Value, json};

pub use call::Call;
pub use settings::Settings;

use crate::blocking::{UnnamedTask, ended_task};
use crate::implementation::{EndLog, Implementation, Rejected, check_tool};
use crate::nested::BlockingTool;
use crate::parent::Parent;
use crate::{Answer, Context, Error, Result, SessionRef, Setting, Started, ToolCall};

use call::Wrong;
use events::Event;

const NAME: &str = "xzatoma";

/// The agent name of these tasks, whose calls name no agent.
const AGENT: &str = "subagent";

pub(crate) struct Tools;

impl Implementation for Tools {
    const NAME: &'static str = NAME;
    const DELEGATION_TOOLS: &'static [&'static str] = &[SUBAGENT];
    const INSTRUCTIONS: &'static str = crate::task_handle::INSTRUCTIONS;
    const SETTINGS: &'static [Setting] = settings::SETTINGS;

    type Call = Call;

    fn tools(_: &TextLimits) -> Vec<ToolDefinition> {
        vec![tool::tool()]
    }

    fn parse(call: &ToolCall, _: &TextLimits) -> Result<Call, Rejected> {
        check_tool::<Self>(&call.tool)?;
        Call::parse(&call.arguments).map_err(|wrong| {
            Rejected::Answer(answers::refused(&wrong, call.arguments["label"].as_str()))
        })
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
        let settings = &context.policy.dialects.xzatoma;
        let Parent { tools, model } = context.parent(session).await?;
        let config = new.agent_config(&tools, model, settings).map_err(Refusal::from)?;
        let event = Event::of_spawn(&config, Depth::TOP, context.policy.operator.max_turns_ceiling);
        let task = UnnamedTask {
            agent: AGENT,
            config,
            assignment: new.task_prompt.clone(),
            label: Some(new.label.clone()),
            metadata: new.metadata(),
            quota: settings.quota.if_any(),
        };
        let spawned = context.spawn_unnamed(session, call, NAME, task).await;
        match &spawned {
            _ if !settings.telemetry_enabled => {}
            Ok(spawned) if spawned.is_new => event.log(&new.label),
            // The refusal of a full session has the same code.
            Err(Error::Refused(refusal)) if refusal.message.starts_with(QUOTA_EXCEEDED) => {
                Event::QuotaExceeded.log(&new.label);
            }
            Ok(_) | Err(_) => {}
        }
        spawned.map(|spawned| Started::Waiting(spawned.number))
    }

    fn refused(call: &Call, refusal: &Refusal) -> Option<Answer> {
        let label = match call {
            Call::New(new) => Some(new.label.as_str()),
            Call::WaitAgain(_) => None,
        };
        Some(answers::refused(&Wrong(refusal.message.clone()), label))
    }

    /// The outcome, or a quota error if the subagents of the session had used too many tokens when
    /// the task ended.
    async fn ended(
        context: &Context<'_>,
        session: &SessionRef<'_>,
        task: &TaskView,
    ) -> Result<Answer> {
        let settings = &context.policy.dialects.xzatoma;
        let record = context.store.task(session.tenant, task.id).await?;
        let task = ended_task(&record)?;
        if let (Some(_), Some(at)) =
            (settings.quota.max_total_tokens, record.entry.task.finished_at)
        {
            let used = context.store.tokens_until(session.id, NAME, at).await?;
            if let Err(exceeded) = settings.quota.check_tokens(used) {
                return Ok(answers::over_quota(&task, &exceeded));
            }
        }
        Ok(answers::ended(&task, settings))
    }

    async fn still_running(
        _context: &Context<'_>,
        _session: &SessionRef<'_>,
        task: &TaskView,
    ) -> Result<Answer> {
        Ok(answers::still_running(task.number, task.label.as_deref()))
    }

    async fn prompt(_context: &Context<'_>, _session: &SessionRef<'_>) -> Result<String> {
        Ok(tool::PROMPT.to_owned())
    }

    fn answer_schema() -> Value {
        json!({
            "type": "object", "title": "The answer of xzatoma",
            "properties": {
                "success": {"type": "boolean"}, "output": {"type": "string"},
                "error": {"type": ["string", "null"]},
                "metadata": {"type": "object", "additionalProperties": {"type": "string"}},
            },
            "required": ["success", "output", "error", "metadata"],
        })
    }

    async fn end_log(store: &Store, end: &LoggedEnd) -> Result<EndLog> {
        telemetry::end_log(store, end).await
    }

    fn nested() -> Option<&'static dyn BlockingTool> {
        Some(&nested::NestedTool)
    }
}

impl From<Wrong> for Refusal {
    fn from(Wrong(message): Wrong) -> Self {
        Self::new(ErrorCode::InvalidArgument, message)
    }
}
