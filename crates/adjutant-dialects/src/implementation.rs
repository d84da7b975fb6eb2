use adjutant_agent::{ErrorCode, Refusal, TextLimits, ToolDefinition};
use serde_json::{Value, json};

use crate::context::{Context, SessionRef, Started};
use crate::error::bug;
use crate::nested::BlockingTool;
use crate::{Answer, Result, Setting, ToolCall};
use adjutant_store::{LoggedEnd, Store, TaskView};

/// What a dialect provides: the boundary between its folder and everything else. The folder
/// implements it for a type that is called `Tools`.
pub(crate) trait Implementation {
    const NAME: &'static str;
    /// The tools with which an orchestrator delegates. A child never gets them by a list of tools.
    const DELEGATION_TOOLS: &'static [&'static str];
    /// The argument that names the session of a call over MCP.
    const SESSION_ARGUMENT: &'static str = "session_id";
    /// The MCP instructions of the server.
    const INSTRUCTIONS: &'static str;
    /// The dialect's settings in the config file, which are the fields of its type `Settings`.
    const SETTINGS: &'static [Setting] = &[];

    /// A call whose arguments are valid.
    type Call: Send + Sync;

    /// The tools that an orchestrator gets.
    fn tools(limits: &TextLimits) -> Vec<ToolDefinition>;

    /// Parses and checks the arguments of a call.
    fn parse(call: &ToolCall, limits: &TextLimits) -> Result<Self::Call, Rejected>;

    /// Whether the call makes sense in a session that has no tasks yet.
    fn can_open_session(call: &Self::Call) -> bool;

    /// Whether the call polls the status of tasks, which the operator may rate-limit.
    fn polls_status(_call: &Self::Call) -> bool {
        false
    }

    /// Whether the call waits for one task, so that a client that cancels the call cancels the
    /// task.
    fn waits_for_task(_call: &Self::Call) -> bool {
        false
    }

    /// Whether `start` itself may wait for tasks.
    fn start_waits(_call: &Self::Call) -> bool {
        false
    }

    /// Does everything that the call asks for, except for waiting for its task.
    async fn start(
        context: &Context<'_>,
        session: &SessionRef<'_>,
        call: &ToolCall,
        parsed: &Self::Call,
    ) -> Result<Started>;

    /// The answer to a call that is refused; none if the refusal is the answer of the transport
    /// instead of the tool's.
    fn refused(call: &Self::Call, refusal: &Refusal) -> Option<Answer>;

    /// The answer to a call whose task has ended.
    async fn ended(
        _context: &Context<'_>,
        _session: &SessionRef<'_>,
        _task: &TaskView,
    ) -> Result<Answer> {
        Err(no_wait(Self::NAME))
    }

    /// The answer to a call whose task still runs after the longest time that a call may take.
    async fn still_running(
        _context: &Context<'_>,
        _session: &SessionRef<'_>,
        _task: &TaskView,
    ) -> Result<Answer> {
        Err(no_wait(Self::NAME))
    }

    /// The text for an orchestrator's system prompt.
    async fn prompt(context: &Context<'_>, session: &SessionRef<'_>) -> Result<String>;

    /// The JSON schema of the answers, for the OpenAPI document.
    fn answer_schema() -> Value {
        json!({})
    }

    /// The log entries for the end of a task whose configuration has telemetry settings of this
    /// dialect.
    async fn end_log(_store: &Store, _end: &LoggedEnd) -> Result<EndLog> {
        Ok(Box::new(|| {}))
    }

    /// How the agents of this dialect delegate further, if its calls wait for the child that they
    /// spawn.
    fn nested() -> Option<&'static dyn BlockingTool> {
        None
    }
}

/// Writes log entries that are ready.
pub(crate) type EndLog = Box<dyn Fn() + Send>;

/// Why a call was not parsed.
#[derive(Debug)]
pub(crate) enum Rejected {
    /// The tool's own answer says so.
    Answer(Answer),
    /// No tool can say so; the transport does.
    Refusal(Refusal),
}

impl From<Refusal> for Rejected {
    fn from(refusal: Refusal) -> Self {
        Self::Refusal(refusal)
    }
}

fn no_wait(dialect: &str) -> crate::Error {
    bug(&format_args!("a call of {dialect} waits for a task"))
}

/// Refuses a tool that the dialect does not have.
pub(crate) fn check_tool<T: Implementation>(tool: &str) -> Result<(), Refusal> {
    let tools = T::tools(&TextLimits::DEFAULT);
    if tools.iter().any(|known| known.name == tool) {
        return Ok(());
    }
    let start: String = tool.chars().take(64).collect();
    let tools: Vec<String> = tools.into_iter().map(|tool| tool.name).collect();
    let message =
        format!("There is no tool {start:?} in {}; there are: {}", T::NAME, tools.join(", "));
    Err(Refusal::new(ErrorCode::ToolNotFound, message))
}
