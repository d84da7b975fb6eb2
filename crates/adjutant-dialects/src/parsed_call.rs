use adjutant_agent::{ErrorCode, Refusal, TextLimits};

use crate::context::{Context, SessionRef, Started};
use crate::{Answer, Dialect, Error, Request, Result, ToolCall};

/// A call that was parsed. It is parsed once, whatever becomes of it afterwards.
pub struct ParsedCall {
    pub call: ToolCall,
    pub dialect: Dialect,
    pub(crate) request: Request,
}

/// A call that no tool can answer.
#[derive(Debug)]
pub struct RefusedCall {
    pub call: ToolCall,
    pub refusal: Refusal,
}

impl ParsedCall {
    /// Parses a call. Only what no tool can answer is refused: an unknown tool, and in `spec` every
    /// invalid argument, for which HTTP has status codes.
    pub fn parse(
        call: ToolCall,
        dialect: Dialect,
        limits: &TextLimits,
    ) -> Result<Self, Box<RefusedCall>> {
        match Request::parse(dialect, &call, limits) {
            Ok(request) => Ok(Self { call, dialect, request }),
            Err(refusal) => Err(Box::new(RefusedCall { call, refusal })),
        }
    }

    /// The tool's answer to arguments that are not valid.
    pub fn rejected(&self) -> Option<&Answer> {
        if let Request::Rejected(answer) = &self.request { Some(answer) } else { None }
    }

    /// Whether the call makes sense in a session that has no tasks yet.
    pub fn can_open_session(&self) -> bool {
        self.request.can_open_session()
    }

    /// Whether the call polls the status of tasks, which the operator may rate-limit.
    pub fn polls_status(&self) -> bool {
        self.request.polls_status()
    }

    /// Whether the call waits for one task, so that a client that cancels the call cancels the
    /// task.
    pub fn waits_for_task(&self) -> bool {
        self.request.waits_for_task()
    }

    /// Whether [`ParsedCall::start`] itself may wait for tasks.
    pub fn start_waits(&self) -> bool {
        self.request.start_waits()
    }

    /// Does everything that the call asks for, except for waiting for its task. A refusal that the
    /// tool can express is its answer.
    pub async fn start(&self, context: &Context<'_>, session: &SessionRef<'_>) -> Result<Started> {
        let started = self.request.start(context, session, &self.call).await;
        started.or_else(|error| self.render_refusal(error).map(Started::Answered))
    }

    /// Waits until a task has ended, collected or not, for as long as a call may take, and renders
    /// it.
    pub async fn wait(
        &self,
        context: &Context<'_>,
        session: &SessionRef<'_>,
        task: adjutant_agent::TaskNumber,
    ) -> Result<Answer> {
        let answer = context.wait_for_task(session, self.dialect, task).await;
        answer.or_else(|error| self.render_refusal(error))
    }

    fn render_refusal(&self, error: Error) -> Result<Answer> {
        let Error::Refused(refusal) = error else { return Err(error) };
        let answer =
            if is_for_the_tool(refusal.code) { self.request.refused(&refusal) } else { None };
        answer.ok_or(Error::Refused(refusal))
    }
}

/// Sessions, keys and rates are not the tool's subject: the transport reports them.
fn is_for_the_tool(code: ErrorCode) -> bool {
    !matches!(
        code,
        ErrorCode::SessionNotFound
            | ErrorCode::ToolNotFound
            | ErrorCode::IdempotencyConflict
            | ErrorCode::RateLimited
            | ErrorCode::Internal
            | ErrorCode::Unavailable
    )
}
