use adjutant_agent::dialects::{self, Answer, caliban, weakincentives, xzatoma};
use adjutant_agent::{ErrorCode, Refusal};

use super::Dialect;
use crate::{ToolCall, ecs, spec};

/// A call that has been read, in the words of its dialect.
pub(crate) enum Request {
    Spec(spec::Request),
    Caliban(caliban::Call),
    Ecs(dialects::ecs::Call),
    Xzatoma(xzatoma::Call),
    Weakincentives(weakincentives::Call),
    /// Its arguments are not what its dialect takes, and this is what it answers.
    Refused(Answer),
}

impl Request {
    /// Reads a call. Only what no tool can answer is refused: a tool that the dialect does not have, and whatever is wrong with
    /// a call of our own, which has statuses for that.
    pub(crate) fn read(call: &ToolCall, dialect: Dialect) -> Result<Self, Refusal> {
        if dialect != Dialect::Spec && !dialect.tools().iter().any(|tool| tool.name == call.tool) {
            return Err(no_tool(&call.tool, dialect));
        }
        match dialect {
            Dialect::Spec => spec::Request::read(call).map(Self::Spec),
            Dialect::Caliban => Ok(match caliban::Call::parse(&call.arguments) {
                Ok(call) => Self::Caliban(call),
                Err(refusal) => Self::Refused(caliban::refused(&refusal)),
            }),
            Dialect::Xzatoma => Ok(match xzatoma::Call::parse(&call.arguments) {
                Ok(call) => Self::Xzatoma(call),
                Err(wrong) => Self::Refused(xzatoma::refused(&wrong, call.arguments["label"].as_str())),
            }),
            // What the source raises is no answer of the tool's.
            Dialect::Ecs => match dialects::ecs::Call::parse(&call.tool, &call.arguments) {
                Some(read) => read.map(Self::Ecs),
                None => Err(no_tool(&call.tool, dialect)),
            },
            Dialect::Weakincentives => Ok(match weakincentives::Call::parse(&call.arguments) {
                Ok(call) => Self::Weakincentives(call),
                Err(refusal) => Self::Refused(weakincentives::invalid(&refusal)),
            }),
        }
    }

    /// Whether it makes sense in a session that has nothing in it yet.
    pub(crate) fn begins(&self) -> bool {
        match self {
            Self::Spec(request) => request.begins(),
            Self::Caliban(call) => matches!(call, caliban::Call::New(_)),
            Self::Ecs(call) => call.begins(),
            Self::Xzatoma(call) => matches!(call, xzatoma::Call::New(_)),
            Self::Weakincentives(call) => matches!(call, weakincentives::Call::New(_)),
            Self::Refused(_) => false,
        }
    }

    /// How the dialect says that a call is refused; none where that is not for a tool to say.
    pub(crate) fn refused(&self, refusal: &Refusal) -> Option<Answer> {
        if !is_for_a_tool_to_say(refusal.code) {
            return None;
        }
        match self {
            Self::Spec(_) => None,
            Self::Caliban(_) => Some(caliban::refused(refusal)),
            Self::Ecs(call) => Some(ecs::refused(call, refusal)),
            Self::Xzatoma(call) => {
                let label = match call {
                    xzatoma::Call::New(new) => Some(new.label.as_str()),
                    xzatoma::Call::GoOn(_) => None,
                };
                Some(xzatoma::refused(&xzatoma::Wrong(refusal.message.clone()), label))
            }
            Self::Weakincentives(_) => Some(crate::weakincentives::refused(refusal)),
            Self::Refused(answer) => Some(answer.clone()),
        }
    }
}

fn no_tool(tool: &str, dialect: Dialect) -> Refusal {
    let start: String = tool.chars().take(64).collect();
    let tools: Vec<String> = dialect.tools().into_iter().map(|tool| tool.name).collect();
    Refusal::new(
        ErrorCode::ToolNotFound,
        format!("There is no tool {start:?} in {}; there are: {}", dialect.as_str(), tools.join(", ")),
    )
}

/// Sessions, keys and rates are not the tool's: it would have to be there to say so.
fn is_for_a_tool_to_say(code: ErrorCode) -> bool {
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
