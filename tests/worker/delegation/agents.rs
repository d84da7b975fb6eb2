//! A family of agents: heads that delegate, hands that work, and a script for each of them.

use adjutant_agent::{SessionId, TaskId, TaskState};
use adjutant_script::{Answer, Script, tool_call};
use adjutant_store::NewDelegation;
use serde_json::{Value, json};

use crate::support::fleet::{Done, Fleet, to};
use crate::support::world::until_within;

/// An agent that delegates.
pub const HEAD: &str = "head";
/// An agent that does not delegate.
pub const HAND: &str = "hand";

/// A fleet with this depth limit.
pub async fn home(script: Script, max_depth: u8) -> Fleet {
    home_with(script, max_depth, "").await
}

/// With further settings of the table `[limits]`.
pub async fn home_with_limits(script: Script, max_depth: u8, limits: &str) -> Fleet {
    let config = format!("{AGENTS}\n[limits]\nmax_depth = {max_depth}\n{limits}\n");
    Fleet::with(script, |_| config).await
}

pub async fn home_with(script: Script, max_depth: u8, more: &str) -> Fleet {
    let config = format!("{AGENTS}{more}\n[limits]\nmax_depth = {max_depth}\n");
    Fleet::with(script, |_| config).await
}

const AGENTS: &str = r#"
[agents.head]
description = "Delegates"
system_prompt = "You are a head."
tools = ["shared_context"]
may_delegate = true

[agents.hand]
description = "Works"
system_prompt = "You are a hand."
tools = ["held", "lookup"]
"#;

/// One call of the tool to delegate.
pub fn delegate(arguments: Value) -> Answer {
    tool_call("subagent", arguments)
}

pub fn spawn(agent: &str, task: &str) -> Answer {
    delegate(json!({"action": "spawn", "agent": agent, "task": task}))
}

/// Several children at once, each with a task of its own.
pub fn batch(agent: &str, tasks: &[&str]) -> Answer {
    let tasks: Vec<Value> =
        tasks.iter().map(|task| json!({"agent": agent, "task": task})).collect();
    delegate(json!({"action": "batch", "tasks": tasks}))
}

pub fn wait(mode: &str) -> Answer {
    delegate(json!({"action": "wait", "mode": mode}))
}

/// The task with this index in the answer of the wait before.
pub fn collect(fleet: usize) -> Value {
    json!({"action": "collect", "task_id": format!("{{results/0/tasks/{fleet}/task_id}}")})
}

impl Fleet {
    /// A head with this task, in a session of its own.
    pub async fn head(&self, wire: &str, assignment: &str) -> TaskId {
        self.give(wire, HEAD, assignment).await
    }

    pub async fn head_with(
        &self,
        session: SessionId,
        new: impl FnOnce(&mut NewDelegation),
    ) -> TaskId {
        let mut delegation = to(HEAD, "Lead.");
        new(&mut delegation);
        self.delegate(session, delegation).await
    }

    /// The children of a task, in the order of their numbers.
    pub async fn children(&self, task: TaskId) -> Vec<TaskId> {
        let ids: Vec<uuid::Uuid> =
            sqlx::query_scalar("select id from task where parent = $1 order by number")
                .bind(task.0)
                .fetch_all(&self.world.sql)
                .await
                .unwrap();
        ids.into_iter().map(TaskId).collect()
    }

    pub async fn until(&self, task: TaskId, state: TaskState) {
        let patience = std::time::Duration::from_secs(60);
        until_within(patience, &format!("task {task} is {state}"), async || {
            self.state(task).await == state
        })
        .await;
    }

    /// The events of a task except for turns and tool calls, in order.
    pub async fn story(&self, task: TaskId) -> Vec<String> {
        sqlx::query_scalar(
            "select kind::text from event where task = $1 and kind not in ('turn', 'tool', 'started') order by seq",
        )
        .bind(task.0)
        .fetch_all(&self.world.sql)
        .await
        .unwrap()
    }
}

/// The results of a turn's calls as JSON.
pub fn results(done: &Done, turn: usize) -> Vec<Value> {
    let read =
        |content: String| serde_json::from_str(&content).unwrap_or_else(|_| panic!("{content}"));
    done.results_of(turn).into_iter().map(read).collect()
}
