use std::time::Duration;

use adjutant_agent::{MAX_SECONDS, Refusal, TaskId, TaskNumber, TaskView, WaitMode};
use serde_json::{Value, json};

use super::child_status;
use crate::spec::WaitCall;

/// A parent's wait for children. It holds no slot meanwhile, so it may last as long as they do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildWait {
    /// Without duplicates. `None` is all children whose outcomes are not collected.
    pub task_ids: Option<Vec<TaskNumber>>,
    pub mode: WaitMode,
    /// `None` waits until they end.
    pub timeout: Option<Duration>,
}

/// The state of a wait.
#[derive(Debug, Clone, PartialEq)]
pub enum Waited {
    /// It is over, and this is its answer.
    Over(Value),
    /// It continues: for these children, and for this time.
    Until { children: Vec<TaskId>, mode: WaitMode, at_most: Option<Duration> },
}

impl ChildWait {
    pub(super) fn of(call: WaitCall, arguments: &Value) -> Result<Self, Refusal> {
        let WaitCall { task_ids, mode, timeout: _ } = call;
        // The upper bound of an orchestrator's wait does not apply, because no connection is open.
        let timeout = match arguments.get("timeout_s").and_then(Value::as_f64) {
            Some(seconds) if seconds > MAX_SECONDS => {
                return Err(Refusal::invalid(
                    "timeout_s",
                    format_args!("must be at most {MAX_SECONDS} seconds"),
                ));
            }
            seconds => seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
        };
        Ok(Self { task_ids, mode, timeout })
    }

    /// Decides only from the states of the children and the age of the stored call, so that every
    /// worker that continues the parent decides the same.
    pub fn decide(&self, children: &[TaskView], since_call: Duration) -> Result<Waited, Refusal> {
        let awaited = self.awaited(children)?;
        let ended: Vec<&TaskView> =
            awaited.iter().copied().filter(|child| child.state.is_terminal()).collect();
        let is_met = awaited.len() == ended.len()
            || match self.mode {
                WaitMode::Any => !ended.is_empty(),
                WaitMode::All => false,
            };
        let left = self.timeout.map(|timeout| timeout.saturating_sub(since_call));
        if is_met || left == Some(Duration::ZERO) {
            let tasks: Vec<Value> =
                ended.iter().map(|child| Value::Object(child_status(child))).collect();
            return Ok(Waited::Over(json!({ "tasks": tasks, "timed_out": !is_met })));
        }
        let children =
            awaited.iter().filter(|child| !child.state.is_terminal()).map(|child| child.id);
        Ok(Waited::Until { children: children.collect(), mode: self.mode, at_most: left })
    }

    fn awaited<'a>(&self, children: &'a [TaskView]) -> Result<Vec<&'a TaskView>, Refusal> {
        let is_open = |child: &TaskView| child.collected_at.is_none();
        let Some(numbers) = &self.task_ids else {
            return Ok(children.iter().filter(|child| is_open(child)).collect());
        };
        let find = |number: &TaskNumber| {
            let child = children.iter().find(|child| child.number == *number);
            child.filter(|child| is_open(child)).ok_or_else(|| {
                Refusal::no_task(*number, child.and_then(|child| child.collected_at))
            })
        };
        numbers.iter().map(find).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::child::child;
    use super::*;
    use adjutant_agent::{ErrorCode, TaskState, TextLimits};

    use crate::spec::nested::ChildCall;

    const NOW: Duration = Duration::ZERO;

    fn wait(arguments: Value) -> ChildWait {
        let mut arguments = arguments;
        arguments["action"] = json!("wait");
        let Ok(ChildCall::Wait(wait)) = ChildCall::parse(&arguments, &TextLimits::DEFAULT) else {
            panic!("no wait: {arguments}")
        };
        wait
    }

    fn over(waited: Result<Waited, Refusal>) -> (Vec<String>, bool) {
        let Ok(Waited::Over(answer)) = waited else { panic!("not over: {waited:?}") };
        let tasks = answer["tasks"].as_array().unwrap().iter();
        let ids = tasks.map(|task| task["task_id"].as_str().unwrap().to_owned());
        (ids.collect(), answer["timed_out"].as_bool().unwrap())
    }

    #[test]
    fn any_is_over_with_the_first_and_all_with_the_last() {
        let mut children = [child(2, TaskState::Running), child(3, TaskState::Queued)];
        for mode in ["any", "all"] {
            let Ok(Waited::Until { children: awaited, at_most: None, .. }) =
                wait(json!({"mode": mode})).decide(&children, NOW)
            else {
                panic!("{mode}")
            };
            assert_eq!(awaited, [children[0].id, children[1].id]);
        }
        children[1].state = TaskState::Cancelled;
        assert_eq!(over(wait(json!({})).decide(&children, NOW)), (vec!["t_03".to_owned()], false));
        let Ok(Waited::Until { children: awaited, .. }) =
            wait(json!({"mode": "all"})).decide(&children, NOW)
        else {
            panic!("one still runs")
        };
        assert_eq!(awaited, [children[0].id], "what has ended is not waited for");
        children[0].state = TaskState::Failed;
        let all = (vec!["t_02".to_owned(), "t_03".to_owned()], false);
        assert_eq!(over(wait(json!({"mode": "all"})).decide(&children, NOW)), all);
    }

    #[test]
    fn a_wait_without_ids_is_for_children_that_were_not_collected() {
        let mut children = [child(2, TaskState::Completed), child(3, TaskState::Running)];
        children[0].collected_at = Some(children[0].created_at);
        assert!(matches!(wait(json!({})).decide(&children, NOW), Ok(Waited::Until { .. })));
        assert_eq!(
            over(wait(json!({})).decide(&children[..1], NOW)),
            (vec![], false),
            "nothing is left"
        );
        let refusal = wait(json!({"task_ids": ["t_02"]})).decide(&children, NOW).unwrap_err();
        assert_eq!(refusal.code, ErrorCode::TaskNotFound);
        assert!(refusal.message.starts_with("Task t_02 was already collected at "), "{refusal}");
        let refusal = wait(json!({"task_ids": ["t_01"]})).decide(&children, NOW).unwrap_err();
        assert_eq!(
            (refusal.code, refusal.message.as_str()),
            (ErrorCode::TaskNotFound, "Task not found: t_01"),
            "not a child"
        );
    }

    #[test]
    fn a_wait_lasts_until_the_end_or_its_timeout() {
        let children = [child(2, TaskState::Running), child(3, TaskState::Completed)];
        let second = Duration::from_secs(1);
        let left = |seconds: u64, since| match wait(json!({"mode": "all", "timeout_s": seconds}))
            .decide(&children, since)
        {
            Ok(Waited::Until { at_most, .. }) => at_most,
            over => panic!("{over:?}"),
        };
        assert_eq!(left(600, NOW), Some(second * 600), "no 45 seconds here");
        assert_eq!(left(3, second), Some(second * 2));
        let late = wait(json!({"mode": "all", "timeout_s": 3})).decide(&children, second * 3);
        assert_eq!(over(late), (vec!["t_03".to_owned()], true));
        assert!(over(wait(json!({"mode": "all", "timeout_s": 0})).decide(&children, NOW)).1);
        assert!(
            ChildCall::parse(&json!({"action": "wait", "timeout_s": 1e12}), &TextLimits::DEFAULT)
                .is_err()
        );
    }
}
