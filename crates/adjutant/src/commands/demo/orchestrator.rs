//! The orchestrator of the demo. It makes the same calls that a program of yours would make.

use std::time::Duration;

use adjutant_agent::{AgentDraft, ContextCall, DefinitionLimits, Outcome, SessionId, TextLimits};
use adjutant_store::{NewDelegation, NewTask, Operator, Redefinition, Spawned, Store, TaskView};
use anyhow::{Context, bail};
use serde_json::{Value, json};

use super::CAP;
use super::fleet::{Fleet, Kill};
use super::incident;
use super::output::DemoOutput;

/// The pause between two polls of unfinished tasks.
const POLL: Duration = Duration::from_millis(50);

pub struct Orchestrator<'a> {
    pub store: &'a Store,
    pub session: SessionId,
    pub output: &'a DemoOutput,
}

/// A task that was spawned.
struct SpawnedTask {
    assignment: String,
    spawned: Spawned,
}

/// A task that was collected.
pub struct CollectedTask {
    pub assignment: String,
    pub status: TaskView,
}

/// The outcome of the demo.
pub struct StoryResult {
    pub tasks: Vec<CollectedTask>,
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
    pub async fn run(&self, fleet: &mut Fleet<'_>) -> anyhow::Result<StoryResult> {
        self.write("problem", incident::PROBLEM).await?;
        self.write("scope", incident::SCOPE).await?;
        self.say("The shop is slow. I write the problem and the scope to the shared context.")?;

        let mut research = Vec::new();
        for service in incident::SERVICES {
            research.push(self.delegate("researcher", incident::researchers_task(service)).await?);
        }
        let services = incident::SERVICES.len();
        self.say(&format!(
            "I delegate {services} services, one researcher for each. {CAP} run at once, the others are queued."
        ))?;
        let kill = self.kill_a_worker(&research, fleet).await?;
        let mut tasks = self.collect(research).await?;

        let finding = self.read("finding_prices").await?;
        self.say(&format!("{} found in the logs:", finding.written_by))?;
        finding.value.lines().try_for_each(|line| self.output.say("", &format!("  {line}")))?;
        let question = self.read("open_question").await?;
        self.say(&format!("The researcher asks you: {}", question.value))?;
        self.output.say("you", "No. Back to 600 s, please.")?;
        self.write("decision", incident::DECISION).await?;
        self.delete("open_question").await?;

        let remediator = self.define(incident::remediator()).await?;
        let fix = self.delegate(&remediator, incident::REMEDIATORS_TASK.to_owned()).await?;
        let report = self.delegate("writer", incident::WRITERS_TASK.to_owned()).await?;
        self.say("I define a remediator. It and the writer work at the same time.")?;
        tasks.extend(self.collect(vec![fix, report]).await?);

        let (fix, report) = (self.read("fix").await?, self.read("report").await?);
        self.say(&format!("The fix: {}", fix.value))?;
        self.say(&format!("The report: {}", report.value))?;
        Ok(StoryResult { tasks, kill, fix, report })
    }

    /// Kills a worker while the orchestrator waits.
    async fn kill_a_worker(
        &self,
        research: &[SpawnedTask],
        fleet: &mut Fleet<'_>,
    ) -> anyhow::Result<Kill> {
        let tasks: Vec<_> =
            research.iter().map(|task| (task.assignment.as_str(), task.spawned.id)).collect();
        let kill = fleet.kill_during_answer(incident::CULPRIT, &tasks).await?;
        self.output.say(
            "kill -9",
            &format!(
                "A worker is killed during answer {} about {}. It held {} tasks.",
                incident::FATAL_TURN,
                incident::CULPRIT,
                kill.held.len()
            ),
        )?;
        Ok(kill)
    }

    /// Waits for these tasks and collects each when it has ended.
    async fn collect(&self, mut tasks: Vec<SpawnedTask>) -> anyhow::Result<Vec<CollectedTask>> {
        let mut done = Vec::new();
        while !tasks.is_empty() {
            tokio::time::sleep(POLL).await;
            for task in std::mem::take(&mut tasks) {
                if self.store.status(self.session, task.spawned.number).await?.state.is_terminal() {
                    done.push(self.collect_one(task).await?);
                } else {
                    tasks.push(task);
                }
            }
        }
        Ok(done)
    }

    async fn collect_one(&self, task: SpawnedTask) -> anyhow::Result<CollectedTask> {
        let number = task.spawned.number;
        let collected = self.store.collect(self.session, number, None).await?;
        let result = match collected.outcome {
            Outcome::Completed { result, .. } => result,
            Outcome::Failed { error, .. } => bail!("{number} failed: {error}"),
            Outcome::Cancelled { .. } => bail!("{number} was cancelled"),
        };
        let note = if collected.task.attempt > 1 { " (on a second worker)" } else { "" };
        self.output.say(&collected.task.agent, &format!("{number}{note}: {result}"))?;
        self.output.task_collected();
        Ok(CollectedTask { assignment: task.assignment, status: collected.task })
    }

    async fn delegate(&self, agent: &str, assignment: String) -> anyhow::Result<SpawnedTask> {
        let task = NewTask {
            agent: agent.to_owned(),
            assignment: assignment.clone(),
            queue: true,
            ..NewTask::default()
        };
        let new = NewDelegation { task, ..NewDelegation::default() };
        let spawned = self.store.delegate(self.session, &new, &Operator::default(), None).await?;
        Ok(SpawnedTask { assignment, spawned })
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
        let text =
            |field: &str| entry[field].as_str().map(str::to_owned).context("an entry has it");
        Ok(Entry { value: text("value")?, written_by: text("written_by")? })
    }

    async fn shared_context(&self, arguments: &Value) -> anyhow::Result<Value> {
        Ok(self
            .store
            .shared_context(self.session, &ContextCall::parse(arguments, &TextLimits::DEFAULT)?)
            .await?)
    }

    fn say(&self, what: &str) -> anyhow::Result<()> {
        self.output.say("orchestrator", what)
    }
}
