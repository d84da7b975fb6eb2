//! New tasks as the columns of the SQL type `new_tasks`: element n of every column belongs to task
//! n.

use adjutant_agent::{
    AgentConfig, AgentExtras, Budget, OnBudget, OnWorkerLoss, SessionId, Webhook,
};
use serde::Serialize;
use serde_json::{Map, Value};
use sqlx::types::Json;
use uuid::Uuid;

use crate::json::to_json;
use crate::text::{refuse_nul, refuse_nul_in};
use crate::{Dependency, NewDelegation, NewTask, Quota, Result};

#[derive(Debug, Default)]
pub(crate) struct NewTasks<'a> {
    pub(crate) sessions: Vec<i64>,
    pub(crate) ids: Vec<Uuid>,
    pub(crate) agents: Vec<String>,
    pub(crate) assignments: Vec<String>,
    pub(crate) pools: Vec<String>,
    pub(crate) priorities: Vec<i16>,
    /// Most tasks have none.
    pub(crate) options: Vec<Option<Value>>,
    /// `None` if the database resolves the agents.
    pub(crate) configs: Option<Configs<'a>>,
}

/// The configurations of tasks that do not get them from an agent.
#[derive(Debug, Default)]
pub(crate) struct Configs<'a> {
    pub(crate) agent_versions: Vec<i32>,
    pub(crate) loss_rules: Vec<String>,
    pub(crate) configs: Vec<Json<&'a Map<String, Value>>>,
}

impl<'a> NewTasks<'a> {
    /// Tasks with their configurations.
    pub(crate) fn configured(session: SessionId, tasks: &'a [NewTask]) -> Result<Self> {
        let mut columns = Self::default();
        let mut configs = Configs::default();
        for task in tasks {
            for (name, value) in &task.config {
                refuse_nul_in("config", name)?;
                refuse_nul("config", value)?;
            }
            columns.push(session, task, Options::of_task(task))?;
            configs.agent_versions.push(task.agent_version);
            configs.loss_rules.push(task.on_worker_loss.as_str().to_owned());
            configs.configs.push(Json(&task.config));
        }
        columns.configs = Some(configs);
        Ok(columns)
    }

    /// Tasks for agents.
    pub(crate) fn delegated(session: SessionId, delegations: &[NewDelegation]) -> Result<Self> {
        let mut columns = Self::default();
        for new in delegations {
            columns.push(session, &new.task, Options::of_delegation(new))?;
        }
        Ok(columns)
    }

    /// Sets an option of every task.
    pub(crate) fn with_option(mut self, name: &str, value: &Value) -> Self {
        for options in &mut self.options {
            options.get_or_insert_with(|| Value::Object(Map::new()))[name] = value.clone();
        }
        self
    }

    /// Adds the tasks of another batch behind these.
    pub(crate) fn append(&mut self, other: Self) {
        let Self { sessions, ids, agents, assignments, pools, priorities, options, configs: _ } =
            other;
        self.sessions.extend(sessions);
        self.ids.extend(ids);
        self.agents.extend(agents);
        self.assignments.extend(assignments);
        self.pools.extend(pools);
        self.priorities.extend(priorities);
        self.options.extend(options);
    }

    fn push(&mut self, session: SessionId, task: &NewTask, options: Options<'_>) -> Result<()> {
        for (field, text) in
            [("agent", &task.agent), ("task", &task.assignment), ("pool", &task.pool)]
        {
            refuse_nul_in(field, text)?;
        }
        self.sessions.push(session.0);
        self.ids.push(task.id.unwrap_or_default().0);
        self.agents.push(task.agent.clone());
        self.assignments.push(task.assignment.clone());
        self.pools.push(task.pool.clone());
        self.priorities.push(task.priority);
        self.options.push(options.to_json()?);
        Ok(())
    }
}

/// The fields that most tasks do not have. `create_tasks_1` and `resolve_config_1` read them.
#[derive(Default, Serialize)]
struct Options<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_s: Option<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    depends_on: Vec<i32>,
    #[serde(skip_serializing_if = "is_false")]
    queue: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_failures: Option<i16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<&'a str>,
    #[serde(skip_serializing_if = "is_false")]
    snapshot: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    webhook: Option<&'a Webhook>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quota: Option<Quota>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary_prompt: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    budget: Option<Budget>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_budget: Option<OnBudget>,
    #[serde(skip_serializing_if = "Option::is_none")]
    equipment: Option<&'a AgentExtras>,
    #[serde(skip_serializing_if = "Option::is_none", flatten)]
    given: Option<GivenConfig<'a>>,
}

/// A configuration that takes the place of the agent's.
#[derive(Serialize)]
struct GivenConfig<'a> {
    config: &'a AgentConfig,
    agent_version: i32,
    on_worker_loss: OnWorkerLoss,
}

impl<'a> Options<'a> {
    /// Destructures without `..`, so that the compiler finds a forgotten field.
    fn of_task(task: &'a NewTask) -> Self {
        let NewTask {
            id: _,
            agent: _,
            agent_version: _,
            config: _,
            assignment: _,
            label,
            metadata,
            pool: _,
            priority: _,
            delay,
            depends_on,
            queue,
            on_worker_loss: _,
            max_failures,
            traceparent,
            context,
            webhook,
            quota,
        } = task;
        Self {
            label: label.as_deref(),
            metadata: Some(metadata).filter(|metadata| !metadata.is_empty()),
            delay_s: delay.map(|delay| delay.as_secs_f64()).filter(|delay| *delay > 0.0),
            depends_on: depends_on.iter().copied().map(Dependency::to_sql).collect(),
            queue: *queue,
            max_failures: Some(*max_failures).filter(|most| *most != DEFAULT_MAX_FAILURES),
            traceparent: traceparent.as_deref(),
            snapshot: !context.is_shared(),
            webhook: webhook.as_ref(),
            quota: *quota,
            ..Self::default()
        }
    }

    fn of_delegation(new: &'a NewDelegation) -> Self {
        let NewDelegation {
            task,
            config,
            timeout_s,
            budget,
            on_budget,
            summary_prompt,
            equipment,
            any_length: _,
        } = new;
        let given = config.as_ref().map(|config| GivenConfig {
            config,
            agent_version: task.agent_version,
            on_worker_loss: task.on_worker_loss,
        });
        Self {
            summary_prompt: summary_prompt.as_deref(),
            timeout_s: *timeout_s,
            budget: Some(*budget).filter(|budget| *budget != Budget::default()),
            on_budget: *on_budget,
            equipment: Some(equipment).filter(|equipment| !equipment.is_empty()),
            given,
            ..Self::of_task(task)
        }
    }

    /// `None` if the task has none of them.
    fn to_json(&self) -> Result<Option<Value>> {
        let options = to_json(self)?;
        refuse_nul("", &options)?;
        let is_empty = options.as_object().is_some_and(Map::is_empty);
        Ok((!is_empty).then_some(options))
    }
}

/// The column's default in SQL.
pub(crate) const DEFAULT_MAX_FAILURES: i16 = 3;

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

#[cfg(test)]
mod tests {
    use adjutant_agent::TaskId;

    use super::*;

    #[test]
    fn a_task_without_options_sends_none() {
        let task = NewTask { agent: "a".to_owned(), ..NewTask::default() };
        let new = NewDelegation { task, ..NewDelegation::default() };
        assert_eq!(NewTasks::delegated(SessionId(1), &[new]).unwrap().options, [None]);
    }

    #[test]
    fn the_id_and_the_quota_of_a_delegation_are_sent() {
        let id = TaskId::new();
        let quota = Quota { max_executions: Some(1), ..Quota::default() };
        let task = NewTask { id: Some(id), quota: Some(quota), ..NewTask::default() };
        let new = NewDelegation { task, ..NewDelegation::default() };
        let columns = NewTasks::delegated(SessionId(1), &[new]).unwrap();
        assert_eq!(columns.ids, [id.0]);
        let expected = serde_json::json!({"quota": {"max_executions": 1}});
        assert_eq!(columns.options, [Some(expected)]);
    }
}
