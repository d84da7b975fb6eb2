use std::time::Duration;

use adjutant_agent::{ActionForm, Fields, Refusal, TaskNumber, text_in, time_limit};
use serde_json::Value;

pub const STATUS: &str = "subagent_status";
pub const RESULT: &str = "subagent_result";
pub const WAIT: &str = "subagent_wait";
pub const CANCEL: &str = "subagent_cancel";

/// The most ids in one wait, and the most skills in one call.
const MOST_NAMES: usize = 100;

/// A call with valid arguments.
#[derive(Debug, Clone, PartialEq)]
pub enum Call {
    Subagent(Delegation),
    /// Of one session, or of all of them.
    Status(Option<NamedSession>),
    Result(ResultCall),
    Wait(Wait),
    Cancel(NamedSession),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Delegation {
    pub category: String,
    pub prompt: String,
    pub load_skills: Vec<String>,
    pub background: bool,
    /// The longest that it may run. `None` is the limit of the agent or the operator.
    pub timeout_s: Option<f64>,
}

/// A session as the caller names it. It may not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedSession {
    pub session_id: String,
    pub task: Option<TaskNumber>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ResultCall {
    pub of: NamedSession,
    /// As the caller wrote it: the answer refuses unknown methods.
    pub read_method: String,
    /// How long to wait for the end. `None` is as long as a call may take.
    pub timeout: Option<Duration>,
}

/// How a result is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadMethod {
    Full,
    Summary,
}

impl ReadMethod {
    pub fn of(word: &str) -> Option<Self> {
        match word {
            "full" => Some(Self::Full),
            "summary" => Some(Self::Summary),
            _ => None,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Summary => "summary",
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Wait {
    /// `None` is any session.
    pub sessions: Option<Vec<NamedSession>>,
    pub timeout: Option<Duration>,
}

const OF_SUBAGENT: ActionForm = ActionForm {
    required: &["category", "prompt"],
    optional: &["load_skills", "background", "timeout", "stream"],
};
const OF_STATUS: ActionForm = ActionForm { required: &[], optional: &["session_id"] };
const OF_RESULT: ActionForm =
    ActionForm { required: &["session_id"], optional: &["read_method", "timeout"] };
const OF_WAIT: ActionForm = ActionForm { required: &[], optional: &["session_ids", "timeout"] };
const OF_CANCEL: ActionForm = ActionForm { required: &["session_id"], optional: &[] };

impl Call {
    /// Parses a call of one of the five tools, strictly.
    pub fn parse(tool: &str, arguments: &Value) -> Result<Self, Refusal> {
        let read: fn(&mut Fields) -> Result<Self, Refusal> = match tool {
            STATUS => |fields| Ok(Self::Status(fields.take("session_id").map(named).transpose()?)),
            RESULT => |fields| ResultCall::read(fields).map(Self::Result),
            WAIT => |fields| Wait::read(fields).map(Self::Wait),
            CANCEL => |fields| required_session(fields).map(Self::Cancel),
            _ => |fields| Delegation::read(fields).map(Self::Subagent),
        };
        let mut fields = Fields::of(arguments)?;
        fields.refuse_unknown(&[form(tool)])?;
        let call = read(&mut fields)?;
        fields.end()?;
        Ok(call)
    }
}

pub(super) fn form(tool: &str) -> ActionForm {
    match tool {
        STATUS => OF_STATUS,
        RESULT => OF_RESULT,
        WAIT => OF_WAIT,
        CANCEL => OF_CANCEL,
        _ => OF_SUBAGENT,
    }
}

impl Delegation {
    fn read(fields: &mut Fields) -> Result<Self, Refusal> {
        let read = Self {
            category: fields.non_empty_text("category")?.to_owned(),
            prompt: fields.non_empty_text("prompt")?.to_owned(),
            load_skills: skills(fields)?,
            background: fields.boolean("background")?.unwrap_or(false),
            timeout_s: fields
                .number("timeout")?
                .map(|seconds| time_limit("timeout", seconds))
                .transpose()?,
        };
        // Accepted without an effect: every task can be followed on its event stream.
        fields.boolean("stream")?;
        Ok(read)
    }
}

impl ResultCall {
    fn read(fields: &mut Fields) -> Result<Self, Refusal> {
        Ok(Self {
            of: required_session(fields)?,
            read_method: fields
                .optional_text("read_method")?
                .unwrap_or(ReadMethod::Full.as_str())
                .to_owned(),
            timeout: wait_timeout(fields)?,
        })
    }
}

impl Wait {
    fn read(fields: &mut Fields) -> Result<Self, Refusal> {
        let sessions = match fields.texts("session_ids")? {
            None => None,
            Some(ids) if ids.is_empty() => {
                return Err(Refusal::invalid(
                    "session_ids",
                    "must not be empty; leave it out to wait for any",
                ));
            }
            Some(ids) => Some(few("session_ids", ids)?.into_iter().map(NamedSession::of).collect()),
        };
        Ok(Self { sessions, timeout: wait_timeout(fields)? })
    }
}

fn skills(fields: &mut Fields) -> Result<Vec<String>, Refusal> {
    let names = few("load_skills", fields.texts("load_skills")?.unwrap_or_default())?;
    Ok(names.into_iter().map(str::to_owned).collect())
}

impl NamedSession {
    fn of(id: &str) -> Self {
        Self { session_id: id.to_owned(), task: id.parse().ok() }
    }
}

fn named(value: &Value) -> Result<NamedSession, Refusal> {
    text_in("session_id", value).map(NamedSession::of)
}

fn required_session(fields: &mut Fields) -> Result<NamedSession, Refusal> {
    fields.non_empty_text("session_id").map(NamedSession::of)
}

fn few<'a>(field: &str, names: Vec<&'a str>) -> Result<Vec<&'a str>, Refusal> {
    if names.len() > MOST_NAMES {
        return Err(Refusal::invalid(field, format_args!("must have at most {MOST_NAMES} names")));
    }
    Ok(names)
}

/// The timeout of a wait, which may be 0.
fn wait_timeout(fields: &mut Fields) -> Result<Option<Duration>, Refusal> {
    let Some(seconds) = fields.number("timeout")? else { return Ok(None) };
    Duration::try_from_secs_f64(seconds).map(Some).map_err(|_| {
        Refusal::invalid("timeout", "must be a number of seconds that is not negative")
    })
}
