use adjutant_agent::{
    AgentConfig, AgentDefinition, AgentExtras, Budget, DEFAULT_MAX_TREE_TASKS,
    DEFAULT_MAX_TURNS_CEILING, OnBudget, Refusal, SessionId, TextLimits,
};
use futures::future::BoxFuture;
use serde::Serialize;
use serde_json::Value;

use crate::batch::check_batch;
use crate::idempotency::{Keyed, KeyedAction};
use crate::new_tasks::NewTasks;
use crate::retry_and_continue::{CONTINUES, Continued};
use crate::spawn::{By, Spawn};
use crate::spawn_concurrent::{ConcurrentSpawn, is_plain};
use crate::text::storable;
use crate::{Error, IdempotencyKey, Lease, NewTask, Result, Spawned, Store};

/// A task for an agent, which gives it its configuration.
#[derive(Debug, Clone, Default)]
pub struct NewDelegation {
    /// What the agent does not decide. Its `config` does not count, and its `agent_version` and
    /// `on_worker_loss` count only with the `config` below.
    pub task: NewTask,
    /// Takes the place of the agent's configuration; the agent need not exist.
    pub config: Option<AgentConfig>,
    /// In seconds, in place of the agent's.
    pub timeout_s: Option<f64>,
    /// Of each limit the smaller one holds, this or the agent's.
    pub budget: Budget,
    /// In place of the agent's.
    pub on_budget: Option<OnBudget>,
    /// In place of the agent's.
    pub summary_prompt: Option<String>,
    /// In addition to the agent's.
    pub equipment: AgentExtras,
    /// The assignment may be longer than the limit of the dialect `spec`.
    pub any_length: bool,
}

/// The operator's defaults and ceilings for tasks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Operator {
    /// For agents without a model, in sessions without a model.
    pub default_model: String,
    pub max_turns_ceiling: i32,
    pub default_timeout_s: Option<f64>,
    pub max_timeout_s: Option<f64>,
    /// The most tasks of a tree: its root and everything that was ever spawned below it.
    pub max_tree_tasks: i32,
    /// The longest assignments of callers that have a limit.
    #[serde(skip)]
    pub texts: TextLimits,
    /// The agent for names that are not registered, if the operator allows such. `${_category}` in
    /// its prompt is replaced by the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_form: Option<AgentDefinition>,
}

impl Default for Operator {
    fn default() -> Self {
        Self {
            default_model: String::new(),
            max_turns_ceiling: DEFAULT_MAX_TURNS_CEILING,
            default_timeout_s: None,
            max_timeout_s: None,
            max_tree_tasks: DEFAULT_MAX_TREE_TASKS,
            texts: TextLimits::DEFAULT,
            free_form: None,
        }
    }
}

impl Store {
    /// Creates a task for an agent of the session. It keeps the agent's configuration of now.
    pub async fn delegate(
        &self,
        session: SessionId,
        new: &NewDelegation,
        operator: &Operator,
        key: Option<IdempotencyKey<'_>>,
    ) -> Result<Spawned> {
        let delegations = std::slice::from_ref(new);
        let is_free = self.limits.of_tasks().is_none() && self.grants().is_everything();
        if key.is_none() && is_free && is_plain(new) {
            check_delegations(delegations, operator)?;
            let task = NewTasks::delegated(session, delegations)?;
            let store = self.clone();
            let run_batch =
                move |spawns| Box::pin(store.clone().spawn_concurrent(spawns)) as BoxFuture<_>;
            let spawn = ConcurrentSpawn { task, operator: operator.clone() };
            if let Some(spawned) = self.delegations.submit(spawn, run_batch).await? {
                return Ok(spawned);
            }
        }
        let keyed = Keyed { action: KeyedAction::Spawn, key };
        one(self.delegate_as(session, delegations, operator, keyed).await?)
    }

    /// Like [`Store::delegate`], but creates nothing if the inheritance policy of the agent is
    /// strict, which turns missing skills or tool conflicts into errors. The caller then checks
    /// what the agent would inherit, and calls [`Store::delegate`].
    pub async fn delegate_unless_strict(
        &self,
        session: SessionId,
        new: &NewDelegation,
        operator: &Operator,
        key: Option<IdempotencyKey<'_>>,
    ) -> Result<Option<Spawned>> {
        let delegations = std::slice::from_ref(new);
        let tasks = check_delegations(delegations, operator)?;
        let rows = NewTasks::delegated(session, delegations)?;
        let rows = rows.with_option("unless_strict", &Value::Bool(true));
        let keyed = Keyed { action: KeyedAction::Spawn, key };
        let by = By::caller(self);
        let spawn = Spawn { tasks: rows, operator: Some(operator), by, keyed, retried: None };
        Ok(spawn.call(self, &tasks).await?.pop())
    }

    /// Creates a task that continues the conversation of an ended one.
    pub(crate) async fn delegate_continuation(
        &self,
        session: SessionId,
        new: &NewDelegation,
        operator: &Operator,
        keyed: Keyed<'_>,
        from: Continued,
    ) -> Result<Spawned> {
        let delegations = std::slice::from_ref(new);
        let tasks = check_delegations(delegations, operator)?;
        let rows = NewTasks::delegated(session, delegations)?;
        let rows = rows.with_option(CONTINUES, &Value::String(from.task.to_string()));
        let by = By::Orchestrator(from.grants);
        let spawn = Spawn { tasks: rows, operator: Some(operator), by, keyed, retried: None };
        one(spawn.call(self, &tasks).await?)
    }

    /// Creates tasks for agents of the session, all or none, in one round trip.
    pub async fn delegate_all(
        &self,
        session: SessionId,
        delegations: &[NewDelegation],
        operator: &Operator,
        key: Option<IdempotencyKey<'_>>,
    ) -> Result<Vec<Spawned>> {
        let keyed = Keyed { action: KeyedAction::Batch, key };
        self.delegate_as(session, delegations, operator, keyed).await
    }

    async fn delegate_as(
        &self,
        session: SessionId,
        delegations: &[NewDelegation],
        operator: &Operator,
        keyed: Keyed<'_>,
    ) -> Result<Vec<Spawned>> {
        let tasks = check_delegations(delegations, operator)?;
        let rows = NewTasks::delegated(session, delegations)?;
        let by = By::caller(self);
        let spawn = Spawn { tasks: rows, operator: Some(operator), by, keyed, retried: None };
        spawn.call(self, &tasks).await
    }
}

impl Lease {
    /// Creates children of the leased task for agents of its session, all or none. `call` is the
    /// tool call of the last turn that asks for them: the same call finds the same children.
    pub async fn delegate(
        &self,
        call: &str,
        delegations: &[NewDelegation],
        operator: &Operator,
    ) -> Result<Vec<Spawned>> {
        let tasks = check_delegations(delegations, operator)?;
        let rows = NewTasks::delegated(self.session, delegations)?;
        let call = format!("{}:{}", self.answers, storable(call.to_owned()));
        let by = By::Task { lease: self, call: Some(call) };
        let keyed = Keyed { action: KeyedAction::Spawn, key: None };
        let spawn = Spawn { tasks: rows, operator: Some(operator), by, keyed, retried: None };
        spawn.call(&self.store, &tasks).await
    }
}

pub(crate) fn one(mut spawned: Vec<Spawned>) -> Result<Spawned> {
    spawned.pop().ok_or_else(|| Error::Unexpected(sqlx::Error::RowNotFound))
}

/// Refuses what cannot be a batch, and returns its tasks.
fn check_delegations<'a>(
    delegations: &'a [NewDelegation],
    operator: &Operator,
) -> Result<Vec<&'a NewTask>> {
    delegations.iter().try_for_each(|new| check_assignment(new, &operator.texts))?;
    let tasks: Vec<&NewTask> = delegations.iter().map(|new| &new.task).collect();
    check_batch(&tasks)?;
    Ok(tasks)
}

fn check_assignment(new: &NewDelegation, limits: &TextLimits) -> std::result::Result<(), Refusal> {
    if new.any_length {
        return Ok(());
    }
    if new.task.assignment.trim().is_empty() {
        return Err(Refusal::invalid("task", "is required and must not be empty"));
    }
    limits.check_task(&new.task.assignment)
}
