use crate::{Replay, StoredTurn, TaskId, ToolResult, ToolUse, prompts};

/// The most tool calls of one answer that are made. The model gets an error for each further one.
pub const MAX_TOOL_CALLS: usize = 32;

/// A tool call that has no result yet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PendingCall<'a> {
    pub call: &'a ToolUse,
    /// The number of its turn.
    pub turn: i32,
    /// An earlier attempt stored the turn and may have made the call.
    pub may_have_run: bool,
}

impl<'a> PendingCall<'a> {
    /// The calls of a turn that are to be made and have no result, in order.
    pub(crate) fn of(stored: &'a StoredTurn, attempt: i32) -> Vec<Self> {
        let may_have_run = stored.attempt != attempt;
        stored
            .turn
            .answer
            .tool_uses()
            .take(MAX_TOOL_CALLS)
            .filter(|call| stored.result_of(call).is_none())
            .map(|call| Self { call, turn: stored.number, may_have_run })
            .collect()
    }

    /// The result for a call that must not be made, because it may have run already and is not safe
    /// to repeat; none if the call may be made.
    pub fn result_without_running(&self, replay: Replay) -> Option<ToolResult> {
        match replay {
            Replay::Unsafe if self.may_have_run => Some(ToolResult {
                call: self.call.id.clone(),
                content: prompts::OUTCOME_UNKNOWN.to_owned(),
                is_error: true,
                duration_ms: 0,
            }),
            Replay::Safe | Replay::Unsafe => None,
        }
    }

    /// The same for every repetition of this call, and different for every other call.
    pub fn idempotency_key(&self, task: TaskId) -> String {
        format!("{task}:{}:{}", self.turn, self.call.id)
    }
}

impl StoredTurn {
    pub(crate) fn result_of(&self, call: &ToolUse) -> Option<&ToolResult> {
        self.tool_results.iter().find(|result| result.call == call.id)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Arguments;

    fn pay() -> ToolUse {
        let arguments = Arguments::Json(json!({}));
        ToolUse { id: "c1".into(), name: "pay".into(), arguments, extra: None }
    }

    #[test]
    fn only_an_unsafe_call_that_may_have_run_is_not_made() {
        let call = pay();
        for (may_have_run, replay, made) in [
            (false, Replay::Safe, true),
            (false, Replay::Unsafe, true),
            (true, Replay::Safe, true),
            (true, Replay::Unsafe, false),
        ] {
            let pending = PendingCall { call: &call, turn: 1, may_have_run };
            let instead = pending.result_without_running(replay);
            assert_eq!(instead.is_none(), made, "{may_have_run} {replay}");
            if let Some(result) = instead {
                assert_eq!((result.call.as_str(), result.is_error), ("c1", true));
                assert_eq!(result.content, prompts::OUTCOME_UNKNOWN);
            }
        }
    }

    #[test]
    fn a_call_keeps_its_key_over_attempts() {
        let task = TaskId::new();
        let call = pay();
        let key =
            |may_have_run| PendingCall { call: &call, turn: 3, may_have_run }.idempotency_key(task);
        assert_eq!(key(false), format!("{task}:3:c1"));
        assert_eq!(key(false), key(true));
    }
}
