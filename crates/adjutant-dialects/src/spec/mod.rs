//! The Subagent Tool Specification and its companion, the Shared Context Specification, with our
//! extensions. This is the default dialect, and one file is one action.

mod action_forms;
mod call;
mod cancel;
mod collect;
mod continue_task;
mod define;
mod list_agents;
pub mod nested;
mod raise;
mod read;
pub mod render;
mod request;
mod spawn;
mod status;
mod task_fields;
mod tools;
mod wait;

use adjutant_agent::{Refusal, TextLimits, ToolDefinition, prompts, shared_context_tool};

pub use action_forms::BATCH_ITEM;
pub use call::{
    BatchCall, BatchItem, CancelCall, CollectCall, ContinueCall, DefineCall, ItemDependency,
    RaiseCall, ReadCall, SpawnCall, StatusCall, SubagentAction, SubagentCall, TaskOptions,
    WaitCall, new_delegation,
};
pub use tools::subagent_tool;
pub use wait::{Notifications, PolledWait, StartedWait, poll_wait, start_wait};

pub(crate) use request::ParsedRequest;

use crate::implementation::{Implementation, Rejected};
use crate::{
    Answer, Context, NoSettings, ParsedCall, Request, Result, SessionRef, Started, ToolCall,
};

pub type Settings = NoSettings;

pub(crate) struct Tools;

impl Implementation for Tools {
    const NAME: &'static str = "spec";
    const DELEGATION_TOOLS: &'static [&'static str] = &[adjutant_agent::SUBAGENT];
    const INSTRUCTIONS: &'static str = "Delegates work to specialist agents that run on their own and survive restarts. Call subagent with list_agents to see who there is, spawn a task, go on with other work, wait, and collect the result. Put what agents have to know into shared_context. Delegate what takes several steps or can run beside your own work; do yourself what a single tool call does. If an answer has a session_id that you did not give, give it with every further call. The prompt `orchestrator` says more.";

    type Call = ParsedRequest;

    fn tools(limits: &TextLimits) -> Vec<ToolDefinition> {
        vec![subagent_tool(limits), shared_context_tool(limits)]
    }

    fn parse(call: &ToolCall, limits: &TextLimits) -> Result<ParsedRequest, Rejected> {
        Ok(ParsedRequest::parse(call, limits)?)
    }

    fn can_open_session(call: &ParsedRequest) -> bool {
        call.can_open_session()
    }

    fn polls_status(call: &ParsedRequest) -> bool {
        call.polls_status()
    }

    fn start_waits(call: &ParsedRequest) -> bool {
        call.as_wait().is_some_and(|wait| !wait.timeout.is_zero())
    }

    async fn start(
        context: &Context<'_>,
        session: &SessionRef<'_>,
        _call: &ToolCall,
        parsed: &ParsedRequest,
    ) -> Result<Started> {
        let answer = parsed.perform(context, session.id).await?;
        Ok(Started::Answered(Answer::json(answer)))
    }

    /// Errors of this dialect have HTTP statuses.
    fn refused(_call: &ParsedRequest, _refusal: &Refusal) -> Option<Answer> {
        None
    }

    async fn prompt(context: &Context<'_>, session: &SessionRef<'_>) -> Result<String> {
        let agents = context.store.agents(session.id).await?;
        let agents = agents.iter().map(|agent| &agent.definition);
        Ok(prompts::orchestrator_prompt(
            agents.map(|agent| (agent.name.as_str(), agent.description.as_str())),
        ))
    }
}

impl ParsedCall {
    /// The arguments of a `wait` of this dialect.
    pub fn as_wait(&self) -> Option<&WaitCall> {
        if let Request::Spec(request) = &self.request { request.as_wait() } else { None }
    }
}
