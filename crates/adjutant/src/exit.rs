//! How commands end, for scripts.

use std::process::ExitCode;

use crate::client::CallError;
use crate::signals::Interrupted;

/// The meanings of the exit code; `--help` of every command that speaks to a server lists them.
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

    /// What an error that ends the program means.
    fn of(error: &anyhow::Error) -> Self {
        match (error.downcast_ref::<CallError>(), error.downcast_ref::<Told>()) {
            (Some(call), _) => call.exit(),
            (None, Some(told)) => told.exit,
            (None, None) => Self::Error,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// An error of our own with a meaning.
#[derive(Debug)]
pub struct Told {
    pub exit: Exit,
    pub sentence: String,
}

impl Told {
    pub fn usage(sentence: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, sentence: sentence.into() }
    }
}

impl std::fmt::Display for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for Told {}

/// Says why the program ends, and gives the code that says it to scripts.
pub fn explain(error: &anyhow::Error) -> ExitCode {
    if let Some(Interrupted(name)) = error.downcast_ref() {
        // As a shell has it: 128 and the signal's number.
        return ExitCode::from(match *name {
            "HUP" => 129,
            "INT" => 130,
            _ => 143,
        });
    }
    match error.downcast_ref::<CallError>().and_then(CallError::as_it_came) {
        // Who reads nothing more has seen enough.
        Some(body) => drop(crate::output::print_line(body)),
        None => eprintln!("adjutant: {error:#}"),
    }
    Exit::of(error).into()
}

/// The examples of a command that speaks to a server, and what its exit codes mean.
macro_rules! examples {
    ($examples:literal) => {
        concat!(
            "Examples:\n",
            $examples,
            "
Exit codes:
  0  done
  1  error
  2  usage: the command line, or what it says, is not valid
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
