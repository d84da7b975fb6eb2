//! Exit codes, and how errors are reported.

use std::process::ExitCode;

use crate::client::CallError;
use crate::output::note;
use crate::signals::Interrupted;

/// The exit codes. Commands that talk to a server list them in `--help`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Done,
    Error,
    Usage,
    TaskFailed,
    NotReady,
    NotFound,
    Refused,
    Unreachable,
}

impl Exit {
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Error => 1,
            Self::Usage => 2,
            Self::TaskFailed => 3,
            Self::NotReady => 4,
            Self::NotFound => 5,
            Self::Refused => 6,
            Self::Unreachable => 7,
        }
    }

    /// The exit code of an error.
    fn of(error: &anyhow::Error) -> Self {
        match (error.downcast_ref::<CallError>(), error.downcast_ref::<CommandError>()) {
            (Some(call), _) => call.exit(),
            (None, Some(command)) => command.exit,
            (None, None) => Self::Error,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// An error with its own exit code.
#[derive(Debug)]
pub struct CommandError {
    pub exit: Exit,
    pub message: String,
}

impl CommandError {
    pub fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, message: message.into() }
    }
}

impl std::fmt::Display for CommandError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CommandError {}

/// Prints an error and returns its exit code.
pub fn report(error: &anyhow::Error) -> ExitCode {
    if let Some(Interrupted(name)) = error.downcast_ref() {
        // As in a shell: 128 plus the signal's number.
        return ExitCode::from(match *name {
            "HUP" => 129,
            "INT" => 130,
            _ => 143,
        });
    }
    match error.downcast_ref::<CallError>().and_then(CallError::raw_body) {
        // A closed pipe is not an error here.
        Some(body) => drop(crate::output::print_json(body)),
        None => note!("adjutant: {error:#}"),
    }
    Exit::of(error).into()
}

/// The examples of a command that talks to a server, followed by the exit codes.
macro_rules! examples {
    ($examples:literal) => {
        concat!(
            "Examples:\n",
            $examples,
            "
Exit codes:
  0  done
  1  error
  2  usage error: an invalid option or value
  3  the task failed or was cancelled
  4  not ready, or timed out waiting
  5  not found
  6  refused or unauthorised
  7  the server is not reachable
"
        )
    };
}
pub(crate) use examples;
