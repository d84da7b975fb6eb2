//! A `World` and a config; workers run the agents of the config.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use adjutant_agent::{Outcome, SessionId, StoredTurn};
use adjutant_store::{NewDelegation, NewTask, Operator, Spawned, TaskView};
use tempfile::TempDir;

use crate::support::worker_process::WorkerProcess;
use crate::support::world::{World, until_within};

/// How long a task may take: on a busy machine the small model writes a few words a second.
const PATIENCE: Duration = Duration::from_secs(180);

pub struct Site {
    pub world: World,
    folder: TempDir,
    session: SessionId,
}

impl Site {
    /// `{folder}` in the config is replaced with the folder of the config.
    pub async fn new(config: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let config = config.replace("{folder}", folder.path().to_str().unwrap());
        std::fs::write(folder.path().join("adjutant.toml"), config).unwrap();
        let world = World::new().await;
        let session = world.session().await;
        Self { world, folder, session }
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A worker with a short lease.
    pub fn work(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_adjutant"));
        command
            .args(["work", "--lease-seconds", "2", "--database-url", self.world.url()])
            .arg("--config")
            .arg(self.folder().join("adjutant.toml"));
        command
    }

    pub fn worker(&self) -> WorkerProcess {
        WorkerProcess::start(&mut self.work())
    }

    /// Waits until a worker has published these tools, and returns all that are published.
    pub async fn tools(&self, wanted: &[&str]) -> Vec<String> {
        let mut names = Vec::new();
        until_within(PATIENCE, &format!("there are the tools {wanted:?}"), async || {
            let tools = self.world.store.tools().await.unwrap();
            names = tools.into_iter().map(|tool| tool.name).collect();
            wanted.iter().all(|wanted| names.iter().any(|name| name == wanted))
        })
        .await;
        names
    }

    pub async fn delegate(&self, agent: &str, assignment: &str) -> Spawned {
        let task = NewTask {
            agent: agent.to_owned(),
            assignment: assignment.to_owned(),
            queue: true,
            ..NewTask::default()
        };
        let new = NewDelegation { task, ..NewDelegation::default() };
        self.world.store.delegate(self.session, &new, &Operator::default(), None).await.unwrap()
    }

    pub async fn status(&self, task: &Spawned) -> TaskView {
        self.world.store.status(self.session, task.number).await.unwrap()
    }

    pub async fn turns(&self, task: &Spawned) -> Vec<StoredTurn> {
        self.world.store.turns(task.id).await.unwrap()
    }

    /// Waits until the task has ended, and collects its outcome.
    pub async fn outcome(&self, task: &Spawned) -> (TaskView, Outcome) {
        until_within(PATIENCE, "the task ends", async || {
            self.status(task).await.state.is_terminal()
        })
        .await;
        let collected = self.world.store.collect(self.session, task.number, None).await.unwrap();
        self.world.assert_sound().await;
        (collected.task, collected.outcome)
    }

    /// Waits until the task has completed, and returns its status and result.
    pub async fn completed(&self, task: &Spawned) -> (TaskView, String) {
        match self.outcome(task).await {
            (status, Outcome::Completed { result, .. }) => (status, result),
            (status, outcome) => panic!("{status:?} {outcome:?}"),
        }
    }

    /// The names and results of its tool calls, in the order of the calls; errors are `Err`.
    pub async fn tool_results(&self, task: &Spawned) -> Vec<(String, Result<String, String>)> {
        let mut results = Vec::new();
        for turn in self.turns(task).await {
            for call in turn.turn.answer.tool_uses() {
                let result =
                    turn.tool_results.iter().find(|result| result.call == call.id).unwrap();
                let content = result.content.clone();
                results.push((
                    call.name.clone(),
                    if result.is_error { Err(content) } else { Ok(content) },
                ));
            }
        }
        results
    }
}
