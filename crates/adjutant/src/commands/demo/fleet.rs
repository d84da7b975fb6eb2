//! The worker processes, and how one of them dies.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use adjutant_agent::TaskId;
use adjutant_script::{ScriptServer, TurnCount};
use adjutant_store::Store;
use anyhow::Context;
use futures::future::try_join_all;

use super::incident::{FATAL_TURN, researchers_task};
use crate::worker_processes::{Playing, WorkerProcess};

const WORKERS: usize = 3;
/// So that no worker has all of the slots.
const CONCURRENCY: u16 = 2;
/// An answer that is under way for this long is half said.
const HALF_SAID: Duration = Duration::from_millis(400);

pub struct Fleet<'a> {
    store: &'a Store,
    model: &'a ScriptServer,
    workers: Vec<WorkerProcess>,
}

/// How things stood when a worker was dead and nobody had noticed yet.
pub struct Kill {
    /// The tasks that it had.
    pub held: Vec<TaskId>,
    /// How many answers each task had stored, by its assignment.
    pub stored: BTreeMap<String, u32>,
    /// What the model had been asked.
    pub asked: Vec<TurnCount>,
}

impl<'a> Fleet<'a> {
    pub async fn start(
        store: &'a Store,
        model: &'a ScriptServer,
        url: &str,
        config: &Path,
    ) -> anyhow::Result<Self> {
        let start = || WorkerProcess::start(url, CONCURRENCY, Playing::Agents(config));
        let workers = try_join_all((0..WORKERS).map(|_| start())).await?;
        Ok(Self { store, model, workers })
    }

    pub fn size(&self) -> usize {
        self.workers.len()
    }

    /// Kills the worker that gets the answer of the fatal turn about this service, when half of it has come. The tasks are
    /// all that there are, with their assignments.
    pub async fn kill_in_the_middle_of(
        &mut self,
        service: &str,
        tasks: &[(&str, TaskId)],
    ) -> anyhow::Result<Kill> {
        let assignment = researchers_task(service);
        let fatal = tasks.iter().find(|(other, _)| *other == assignment).context("a task of the service")?.1;
        while !self.is_half_said(&assignment) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let busy = self.store.busy_workers().await?;
        let (victim, _) =
            busy.into_iter().find(|(_, tasks)| tasks.contains(&fatal)).context("nobody runs the task")?;
        let place = self.workers.iter().position(|worker| worker.id() == victim).context("a stranger")?;
        self.workers.swap_remove(place).kill().await?;

        let busy = self.store.busy_workers().await?;
        let held = busy.into_iter().find(|(worker, _)| *worker == victim).map(|(_, tasks)| tasks);
        let mut stored = BTreeMap::new();
        for (assignment, task) in tasks {
            let turns = self.store.turns(*task).await?.len();
            stored.insert((*assignment).to_owned(), u32::try_from(turns)?);
        }
        // After the other: an answer that is stored by now was asked for before.
        let asked = self.model.turns();
        Ok(Kill { held: held.unwrap_or_default(), stored, asked })
    }

    fn is_half_said(&self, assignment: &str) -> bool {
        self.model.requests_of(assignment).iter().any(|request| {
            let turn = request.asked.as_ref().map(|asked| asked.turn);
            turn == Some(FATAL_TURN) && request.end.is_none() && request.arrived.elapsed() > HALF_SAID
        })
    }

    pub async fn end(self) -> anyhow::Result<()> {
        for worker in self.workers {
            worker.kill().await?;
        }
        Ok(())
    }
}
