//! Calls about tasks that exist.

use std::time::Duration;

use adjutant_agent::{
    Budget, DEFAULT_PAGE_CHARS, Fields, MAX_PAGE_CHARS, Refusal, TaskNumber, WaitMode,
    check_idempotency_key,
};

use crate::LONGEST_WAIT;
use crate::task_number::task_number;

/// How long a `wait` without `timeout_s` waits.
const WAIT: Duration = Duration::from_secs(30);
/// The most tasks that one call may name.
pub(super) const MAX_TASK_IDS: usize = 100;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusCall {
    pub task_id: TaskNumber,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectCall {
    pub task_id: TaskNumber,
    pub idempotency_key: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CancelCall {
    pub task_id: TaskNumber,
}

/// `raise`: more budget for a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RaiseCall {
    pub task_id: TaskNumber,
    /// At least one limit.
    pub limits: Budget,
}

/// A part of a result, in characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadCall {
    pub task_id: TaskNumber,
    pub offset: i64,
    pub limit: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitCall {
    /// Without duplicates. `None` is the session's active tasks and its unread notifications.
    pub task_ids: Option<Vec<TaskNumber>>,
    pub mode: WaitMode,
    pub timeout: Duration,
}

impl StatusCall {
    pub(super) fn read(fields: &mut Fields) -> Result<Self, Refusal> {
        Ok(Self { task_id: task_id(fields)? })
    }
}

impl CollectCall {
    pub(super) fn read(fields: &mut Fields) -> Result<Self, Refusal> {
        Ok(Self { task_id: task_id(fields)?, idempotency_key: idempotency_key(fields)? })
    }
}

impl CancelCall {
    pub(super) fn read(fields: &mut Fields) -> Result<Self, Refusal> {
        Ok(Self { task_id: task_id(fields)? })
    }
}

impl RaiseCall {
    pub(super) fn read(fields: &mut Fields) -> Result<Self, Refusal> {
        Ok(Self { task_id: task_id(fields)?, limits: Budget::take_raise_from(fields)? })
    }
}

impl ReadCall {
    pub(super) fn read(fields: &mut Fields) -> Result<Self, Refusal> {
        let task_id = task_id(fields)?;
        let offset = fields.integer("offset")?.unwrap_or(0);
        if offset < 0 {
            return Err(Refusal::invalid("offset", "must not be negative"));
        }
        let limit = fields.integer("limit")?.unwrap_or(DEFAULT_PAGE_CHARS);
        if limit < 1 {
            return Err(Refusal::invalid("limit", "must be at least 1"));
        }
        Ok(Self { task_id, offset, limit: limit.min(MAX_PAGE_CHARS) })
    }
}

impl WaitCall {
    pub(super) fn read(fields: &mut Fields) -> Result<Self, Refusal> {
        let task_ids = fields.texts("task_ids")?.map(task_ids).transpose()?;
        let mode = match fields.optional_text("mode")? {
            None => WaitMode::default(),
            Some(word) => {
                word.parse().map_err(|_| Refusal::invalid("mode", "must be any or all"))?
            }
        };
        let timeout = match fields.number("timeout_s")? {
            None => WAIT,
            Some(seconds) if seconds >= 0.0 => {
                Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST_WAIT).min(LONGEST_WAIT)
            }
            Some(_) => return Err(Refusal::invalid("timeout_s", "must not be negative")),
        };
        Ok(Self { task_ids, mode, timeout })
    }
}

fn task_ids(names: Vec<&str>) -> Result<Vec<TaskNumber>, Refusal> {
    if names.is_empty() || names.len() > MAX_TASK_IDS {
        return Err(Refusal::invalid(
            "task_ids",
            format_args!("must be 1 to {MAX_TASK_IDS} task ids, not {}", names.len()),
        ));
    }
    let numbers = names
        .into_iter()
        .enumerate()
        .map(|(place, name)| task_number(&format!("task_ids[{place}]"), name));
    let mut numbers = numbers.collect::<Result<Vec<_>, _>>()?;
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers)
}

pub(super) fn task_id(fields: &mut Fields) -> Result<TaskNumber, Refusal> {
    task_number("task_id", fields.non_empty_text("task_id")?)
}

pub(super) fn idempotency_key(fields: &mut Fields) -> Result<Option<String>, Refusal> {
    let key = fields.optional_text("idempotency_key")?;
    key.map(check_idempotency_key).transpose()?;
    Ok(key.map(str::to_owned))
}
