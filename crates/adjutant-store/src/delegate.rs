use adjutant_agent::{
    AgentDefinition, AgentSpec, Budget, DEFAULT_MAX_TURNS_CEILING, Equipment, ErrorCode,
    MAX_TASK_TOKENS, Refusal, SessionId, check_agent_name, estimate_tokens,
};
use futures::future::BoxFuture;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::batch::check_batch;
use crate::delegate_together::Plain;
use crate::idempotency::{Keyed, KeyedAction};
use crate::spawn::{Made, to_row};
use crate::text::{refuse_nul, refuse_nul_in};
use crate::{Error, IdempotencyKey, NewTask, Result, Spawned, Store};

/// A task for an agent that is called by its name.
#[derive(Debug, Clone, Default)]
pub struct NewDelegation {
    /// All that the agent does not decide; its version and configuration are filled in.
    pub task: NewTask,
    /// Instead of the agent's, in seconds.
    pub timeout_s: Option<f64>,
    /// Limits that are here count instead of the agent's.
    pub budget: Budget,
    /// Instead of the agent's.
    pub summary_prompt: Option<String>,
    /// Beside what the agent has.
    pub equipment: Equipment,
    /// Its assignment may be longer than `spec` takes.
    pub any_length: bool,
}

/// What the operator says where callers and agents say nothing, and the most that they can say.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Operator {
    /// The model of agents that have none, in sessions that have none.
    pub default_model: String,
    pub max_turns_ceiling: i32,
    pub default_timeout_s: Option<f64>,
    pub max_timeout_s: Option<f64>,
    /// What a name that nobody registered stands for; none: nothing. `${_category}` in its prompt is that name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_form: Option<AgentDefinition>,
}

/// Where a template of free-form agents has the name.
const CATEGORY: &str = "${_category}";

impl Operator {
    /// The agent that a name stands for which nobody registered. `free_form_agent_1` is the same rule where agents are looked up.
    pub fn free_form_agent(&self, name: &str) -> Option<AgentDefinition> {
        check_agent_name(name).ok()?;
        let mut agent = self.free_form.clone()?;
        agent.spec.system_prompt = agent.spec.system_prompt.replace(CATEGORY, name);
        Some(agent)
    }
}

impl Default for Operator {
    fn default() -> Self {
        Self {
            default_model: String::new(),
            max_turns_ceiling: DEFAULT_MAX_TURNS_CEILING,
            default_timeout_s: None,
            max_timeout_s: None,
            free_form: None,
        }
    }
}

impl Operator {
    /// The configuration of a task that names no agent: what is asked for, as far as the operator allows it.
    pub fn config_of(&self, spec: AgentSpec) -> Result<Map<String, Value>> {
        config(&spec_at_spawn(&NewDelegation::default(), spec, None, self))
    }
}

impl Store {
    /// Gives a task to an agent of the session. It keeps what the agent is now, whatever becomes of it.
    pub async fn delegate(
        &self,
        session: SessionId,
        new: &NewDelegation,
        operator: &Operator,
        key: Option<IdempotencyKey<'_>>,
    ) -> Result<Spawned> {
        if key.is_none() && self.limits.of_tasks().is_none() && is_plain(new) {
            let plain = Plain::of(session, new, operator)?;
            let store = self.clone();
            let answer_all =
                move |asked| Box::pin(store.clone().delegate_together(asked)) as BoxFuture<_>;
            if let Some(spawned) = self.delegations.submit(plain, answer_all).await? {
                return Ok(spawned);
            }
        }
        let keyed = Keyed { action: KeyedAction::Spawn, key };
        let mut spawned =
            self.delegate_as(session, std::slice::from_ref(new), operator, keyed).await?;
        spawned.pop().ok_or_else(|| Error::Unexpected(sqlx::Error::RowNotFound))
    }

    /// Gives tasks to agents of the session, all or none, in one round trip.
    pub async fn delegate_all(
        &self,
        session: SessionId,
        new: &[NewDelegation],
        operator: &Operator,
        key: Option<IdempotencyKey<'_>>,
    ) -> Result<Vec<Spawned>> {
        self.delegate_as(session, new, operator, Keyed { action: KeyedAction::Batch, key }).await
    }

    async fn delegate_as(
        &self,
        session: SessionId,
        new: &[NewDelegation],
        operator: &Operator,
        keyed: Keyed<'_>,
    ) -> Result<Vec<Spawned>> {
        let Keyed { action, key } = keyed;
        if let Some(key) = key {
            key.check()?;
        }
        let tasks: Vec<NewTask> = new.iter().map(|new| new.task.clone()).collect();
        new.iter().try_for_each(check_assignment)?;
        check_batch(&tasks)?;
        let rows = new.iter().map(row).collect::<Result<Vec<_>>>()?;
        let (operator, notices) = (json(operator)?, self.notices_of(&tasks));
        let most = self.limits.of_tasks();
        let made = self
            .call(async |connection| {
                sqlx::query_as!(
                    Made,
                    r#"select id as "id!", number as "number!", state as "state!", queue_position
                       from delegate_1($1, $2, $3, $4, sha256($5), $6, $7, $8, $9)"#,
                    session.0,
                    Value::Array(rows),
                    operator,
                    key.map(|key| key.key),
                    key.map(|key| key.body),
                    &notices.payloads,
                    most.map(|(active, _)| active),
                    most.map(|(_, queued)| queued),
                    action.as_str(),
                )
                .fetch_all(connection)
                .await
            })
            .await?;
        self.event_notifier.notify([session]);
        made.into_iter().map(Made::spawned).collect()
    }

    /// A task that carries the configuration of the agent that it names: what a batch is made of.
    pub async fn task_for_agent(
        &self,
        session: SessionId,
        new: &NewDelegation,
        operator: &Operator,
    ) -> Result<NewTask> {
        check_assignment(new)?;
        let (agent, model) = self.agent_and_model(session, &new.task.agent, operator).await?;
        let spec = spec_at_spawn(new, agent.definition.spec, model, operator);
        Ok(NewTask {
            agent_version: agent.version,
            config: config(&spec)?,
            on_worker_loss: agent.definition.on_worker_loss,
            ..new.task.clone()
        })
    }
}

/// What else there is to say about a task is asked by itself.
fn is_plain(new: &NewDelegation) -> bool {
    let task = &new.task;
    let waits = task.delay.is_some() || !task.depends_on.is_empty();
    let has_more = !new.equipment.is_empty() || new.any_length || task.webhook.is_some();
    !waits && !has_more && task.context.is_shared()
}

/// A task as `delegate_1` reads it: as `spawn_1` does, with what the agent's configuration is changed by.
pub(crate) fn row(new: &NewDelegation) -> Result<Value> {
    let mut row = to_row(&new.task)?;
    if let Some(text) = &new.summary_prompt {
        refuse_nul_in("summary_prompt", text)?;
    }
    row["summary_prompt"] = json(&new.summary_prompt)?;
    row["timeout_s"] = json(&new.timeout_s)?;
    row["budget"] = json(&new.budget)?;
    if !new.equipment.is_empty() {
        row["equipment"] = json(&new.equipment)?;
        refuse_nul("equipment", &row["equipment"])?;
    }
    Ok(row)
}

pub(crate) fn json(value: &impl Serialize) -> Result<Value> {
    serde_json::to_value(value)
        .map_err(|error| Error::Unexpected(sqlx::Error::Encode(error.into())))
}

fn check_assignment(new: &NewDelegation) -> std::result::Result<(), Refusal> {
    if new.any_length { Ok(()) } else { check_task(&new.task.assignment) }
}

pub(crate) fn check_task(task: &str) -> std::result::Result<(), Refusal> {
    if task.trim().is_empty() {
        return Err(Refusal::invalid("task", "is required and must not be empty"));
    }
    let tokens = estimate_tokens(task);
    if tokens > MAX_TASK_TOKENS {
        return Err(Refusal::new(
            ErrorCode::TaskTooLarge,
            format!(
                "The task has {tokens} tokens and may have {MAX_TASK_TOKENS}; put the details into the shared context"
            ),
        ));
    }
    Ok(())
}

/// What a task is spawned with: what the agent is, what the spawn says instead, and no more than the operator allows.
/// `resolve_config_1` is the same rule where the agent is, which saves [`Store::delegate`] a round trip; a test compares them.
pub(crate) fn spec_at_spawn(
    new: &NewDelegation,
    mut spec: AgentSpec,
    model: Option<String>,
    operator: &Operator,
) -> AgentSpec {
    if spec.model.is_empty() {
        spec.model = model.unwrap_or_else(|| operator.default_model.clone());
    }
    spec.max_turns = spec.max_turns.min(operator.max_turns_ceiling);
    spec.summary_prompt = new.summary_prompt.clone().or(spec.summary_prompt);
    let wanted = new.timeout_s.or(spec.timeout_s).or(operator.default_timeout_s);
    spec.timeout_s = match (wanted, operator.max_timeout_s) {
        (Some(wanted), Some(most)) => Some(wanted.min(most)),
        (wanted, most) => wanted.or(most),
    };
    spec.budget = Budget {
        max_input_tokens: new.budget.max_input_tokens.or(spec.budget.max_input_tokens),
        max_output_tokens: new.budget.max_output_tokens.or(spec.budget.max_output_tokens),
        max_cost_nanousd: new.budget.max_cost_nanousd.or(spec.budget.max_cost_nanousd),
    };
    new.equipment.add_to(spec)
}

pub(crate) fn config(spec: &AgentSpec) -> Result<Map<String, Value>> {
    match serde_json::to_value(spec) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Ok(Map::new()),
        Err(error) => Err(crate::Error::Unexpected(sqlx::Error::Encode(error.into()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeout(
        spawn: Option<f64>,
        agents: Option<f64>,
        default: Option<f64>,
        most: Option<f64>,
    ) -> Option<f64> {
        let new = NewDelegation { timeout_s: spawn, ..NewDelegation::default() };
        let agent = AgentSpec { timeout_s: agents, ..AgentSpec::default() };
        let operator =
            Operator { default_timeout_s: default, max_timeout_s: most, ..Operator::default() };
        spec_at_spawn(&new, agent, None, &operator).timeout_s
    }

    #[test]
    fn a_timeout_is_the_spawns_then_the_agents_then_the_operators_and_never_above_the_maximum() {
        assert_eq!(timeout(Some(1.0), Some(2.0), Some(3.0), None), Some(1.0));
        assert_eq!(timeout(None, Some(2.0), Some(3.0), None), Some(2.0));
        assert_eq!(timeout(None, None, Some(3.0), None), Some(3.0));
        assert_eq!(timeout(None, None, None, None), None);
        assert_eq!(timeout(Some(9.0), None, None, Some(5.0)), Some(5.0));
        assert_eq!(timeout(None, None, None, Some(5.0)), Some(5.0));
        assert_eq!(timeout(Some(1.0), None, None, Some(5.0)), Some(1.0));
    }

    #[test]
    fn a_model_is_the_agents_then_the_sessions_then_the_configs() {
        let model = |agents: &str, session: Option<&str>| {
            let agent = AgentSpec { model: agents.to_owned(), ..AgentSpec::default() };
            let operator = Operator { default_model: "config's".to_owned(), ..Operator::default() };
            spec_at_spawn(&NewDelegation::default(), agent, session.map(str::to_owned), &operator)
                .model
        };
        assert_eq!(model("agent's", Some("session's")), "agent's");
        assert_eq!(model("", Some("session's")), "session's");
        assert_eq!(model("", None), "config's");
    }

    #[test]
    fn each_limit_of_a_budget_is_the_spawns_or_else_the_agents() {
        let own = Budget {
            max_input_tokens: Some(1),
            max_output_tokens: Some(2),
            max_cost_nanousd: None,
        };
        let given =
            Budget { max_output_tokens: Some(3), max_cost_nanousd: Some(4), ..Budget::default() };
        let new = NewDelegation { budget: given, ..NewDelegation::default() };
        let agent = AgentSpec { budget: own, max_turns: 100, ..AgentSpec::default() };
        let spec = spec_at_spawn(&new, agent, None, &Operator::default());
        assert_eq!(
            spec.budget,
            Budget {
                max_input_tokens: Some(1),
                max_output_tokens: Some(3),
                max_cost_nanousd: Some(4)
            }
        );
        assert_eq!(
            spec.max_turns, 25,
            "the ceiling may have come down since the agent was defined"
        );
    }
}
