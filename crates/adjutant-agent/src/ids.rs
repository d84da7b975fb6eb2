use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

macro_rules! uuid_id {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

uuid_id! {
    /// The globally unique id of a task; sorts by creation time.
    #[derive(utoipa::ToSchema)]
    TaskId
}
uuid_id! {
    /// The id of a lease. It is random, so that it cannot be guessed.
    LeaseId
}
uuid_id! {
    /// The id of a worker process; a restarted process has a new one.
    #[derive(utoipa::ToSchema)]
    WorkerId
}

impl TaskId {
    pub fn new() -> Self {
        Self(Uuid::now_v7())
    }
}

impl Default for TaskId {
    fn default() -> Self {
        Self::new()
    }
}

impl WorkerId {
    pub fn new() -> Self {
        Self(Uuid::now_v7())
    }
}

impl Default for WorkerId {
    fn default() -> Self {
        Self::new()
    }
}

/// The key of a session's row. Clients never see it: their `session_id` is the session's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub i64);

/// A task's name inside its session: `t_01`, `t_02`, ... `t_100`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskNumber(pub i32);

impl fmt::Display for TaskNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("t_{:02}", self.0))
    }
}

/// The error of a text that is not a task number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a task id; task ids look like t_01")]
pub struct InvalidTaskNumber(String);

impl FromStr for TaskNumber {
    type Err = InvalidTaskNumber;

    /// Accepts only the form that `Display` prints, so that each task has one name.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.strip_prefix("t_")
            .and_then(|digits| digits.parse().ok())
            .filter(|number| *number > 0)
            .map(Self)
            .filter(|number| number.to_string() == text)
            .ok_or_else(|| InvalidTaskNumber(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_has_one_name() {
        for (number, name) in [
            (1, "t_01"),
            (9, "t_09"),
            (10, "t_10"),
            (99, "t_99"),
            (100, "t_100"),
            (i32::MAX, "t_2147483647"),
        ] {
            assert_eq!(TaskNumber(number).to_string(), name);
            assert_eq!(name.parse(), Ok(TaskNumber(number)));
        }
        for wrong in [
            "",
            "t_",
            "t_0",
            "t_00",
            "t_1",
            "t_001",
            "t_+1",
            "t_-1",
            "T_01",
            "t_01\n",
            " t_01",
            "t_2147483648",
            "01",
        ] {
            assert_eq!(wrong.parse::<TaskNumber>(), Err(InvalidTaskNumber(wrong.to_owned())));
        }
    }
}
