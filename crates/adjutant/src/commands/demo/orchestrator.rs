//! The story, as its orchestrator does it: with the same calls that a program of yours would make.

use std::time::Duration;

use adjutant_agent::{AgentDraft, ContextCall, DefinitionLimits, Outcome, SessionId};
use adjutant_store::{NewDelegation, NewTask, Operator, Redefinition, Spawned, Status, Store};
use anyhow::{Context, bail};
use serde_json::{Value, json};

use super::CAP;
use super::fleet::{Fleet, Kill};
use super::incident;
use super::stage::Stage;

/// Between two looks at tasks that are not done.
const POLL: Duration = Duration::from_millis(50);

pub struct Orchestrator<'a> {
    pub store: &'a Store,
    pub session: SessionId,
    pub stage: &'a Stage,
}

/// A task on its way.
struct Delegated {
    assignment: String,
    spawned: Spawned,
}

/// A task that was collected.
pub struct Done {
    pub assignment: String,
    pub status: Status,
}

/// What came of it all.
pub struct Told {
    pub tasks: Vec<Done>,
    pub kill: Kill,
    pub fix: Entry,
    pub report: Entry,
}

/// An entry of the shared context.
pub struct Entry {
    pub value: String,
    pub written_by: String,
}

impl Orchestrator<'_> {
    pub async fn tell(&self, fleet: &mut Fleet<'_>) -> anyhow::Result<Told> {
        self.write("problem", incident::PROBLEM).await?;
        self.write("scope", incident::SCOPE).await?;
        self.say("The shop is slow. The shared context now says what the problem is, and the scope.")?;

        let mut research = Vec::new();
        for service in incident::SERVICES {
            research.push(self.delegate("researcher", incident::researchers_task(service)).await?);
        }
        let services = incident::SERVICES.len();
        self.say(&format!(
            "{services} services, a researcher for each. {CAP} may run at once, the others are queued."
        ))?;
        let kill = self.kill_a_worker(&research, fleet).await?;
        let mut tasks = self.collect(research).await?;

        let finding = self.read("finding_prices").await?;
        self.say(&format!("{} found in the logs:", finding.written_by))?;
        finding.value.lines().try_for_each(|line| self.stage.say("", &format!("  {line}")))?;
        let question = self.read("open_question").await?;
        self.say(&format!("It has a question for you: {}", question.value))?;
        self.stage.say("you", "No. Back to 600 s, please.")?;
        self.write("decision", incident::DECISION).await?;
        self.delete("open_question").await?;

        let remediator = self.define(incident::remediator()).await?;
        let fix = self.delegate(&remediator, incident::REMEDIATORS_TASK.to_owned()).await?;
        let report = self.delegate("writer", incident::WRITERS_TASK.to_owned()).await?;
        self.say("I define a remediator for it. It and the writer work side by side.")?;
        tasks.extend(self.collect(vec![fix, report]).await?);

        let (fix, report) = (self.read("fix").await?, self.read("report").await?);
        self.say(&format!("The fix: {}", fix.value))?;
        self.say(&format!("The report: {}", report.value))?;
        Ok(Told { tasks, kill, fix, report })
    }

    /// Not what an orchestrator does; but what happens to it.
    async fn kill_a_worker(&self, research: &[Delegated], fleet: &mut Fleet<'_>) -> anyhow::Result<Kill> {
        let tasks: Vec<_> = research.iter().map(|task| (task.assignment.as_str(), task.spawned.id)).collect();
        let kill = fleet.kill_in_the_middle_of(incident::CULPRIT, &tasks).await?;
        self.stage.say(
            "kill -9",
            &format!(
                "A worker dies in the middle of answer {} about {}, with {} tasks in its hands.",
                incident::FATAL_TURN,
                incident::CULPRIT,
                kill.held.len()
            ),
        )?;
        Ok(kill)
    }

    /// Waits for these tasks, and takes each when it is done.
    async fn collect(&self, mut tasks: Vec<Delegated>) -> anyhow::Result<Vec<Done>> {
        let mut done = Vec::new();
        while !tasks.is_empty() {
            tokio::time::sleep(POLL).await;
            for task in std::mem::take(&mut tasks) {
                if self.store.status(self.session, task.spawned.number).await?.state.is_terminal() {
                    done.push(self.take(task).await?);
                } else {
                    tasks.push(task);
                }
            }
        }
        Ok(done)
    }

    async fn take(&self, task: Delegated) -> anyhow::Result<Done> {
        let number = task.spawned.number;
        let collected = self.store.collect(self.session, number, None).await?;
        let result = match collected.outcome {
            Outcome::Completed { result, .. } => result,
            Outcome::Failed { error, .. } => bail!("{number} failed: {error}"),
            Outcome::Cancelled { .. } => bail!("{number} was cancelled"),
        };
        let again = if collected.status.attempt > 1 { " (on a second worker)" } else { "" };
        self.stage.say(&collected.status.agent, &format!("{number}{again}: {result}"))?;
        self.stage.one_more_collected();
        Ok(Done { assignment: task.assignment, status: collected.status })
    }

    async fn delegate(&self, agent: &str, assignment: String) -> anyhow::Result<Delegated> {
        let task = NewTask {
            agent: agent.to_owned(),
            assignment: assignment.clone(),
            queue: true,
            ..NewTask::default()
        };
        let new = NewDelegation { task, ..NewDelegation::default() };
        let spawned = self.store.delegate(self.session, &new, &Operator::default(), None).await?;
        Ok(Delegated { assignment, spawned })
    }

    async fn define(&self, agent: AgentDraft) -> anyhow::Result<String> {
        let agent = agent.check(&DefinitionLimits::default())?;
        self.store.define(self.session, &agent, Redefinition::Refuse).await?;
        Ok(agent.name)
    }

    async fn write(&self, key: &str, value: &str) -> anyhow::Result<()> {
        self.shared_context(&json!({"action": "write", "key": key, "value": value})).await?;
        Ok(())
    }

    async fn delete(&self, key: &str) -> anyhow::Result<()> {
        self.shared_context(&json!({"action": "delete", "key": key})).await?;
        Ok(())
    }

    async fn read(&self, key: &str) -> anyhow::Result<Entry> {
        let entry = self.shared_context(&json!({"action": "read", "key": key})).await?;
        let text = |field: &str| entry[field].as_str().map(str::to_owned).context("an entry has it");
        Ok(Entry { value: text("value")?, written_by: text("written_by")? })
    }

    async fn shared_context(&self, arguments: &Value) -> anyhow::Result<Value> {
        Ok(self.store.shared_context(self.session, &ContextCall::parse(arguments)?).await?)
    }

    fn say(&self, what: &str) -> anyhow::Result<()> {
        self.stage.say("orchestrator", what)
    }
}
