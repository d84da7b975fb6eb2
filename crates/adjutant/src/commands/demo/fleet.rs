//! The worker processes, and the kill of one of them.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use adjutant_agent::TaskId;
use adjutant_script::{ScriptServer, TurnCount};
use adjutant_store::Store;
use anyhow::Context;
use futures::future::try_join_all;

use super::incident::{FATAL_TURN, researchers_task};
use crate::worker_processes::{WorkerKind, WorkerProcess};

const WORKERS: usize = 3;
/// Less than the cap, so that no worker has all slots.
const CONCURRENCY: u16 = 2;
/// After this time half of an answer has been streamed.
const HALF_STREAMED: Duration = Duration::from_millis(400);

pub struct Fleet<'a> {
    store: &'a Store,
    model: &'a ScriptServer,
    workers: Vec<WorkerProcess>,
}

/// The state right after a worker was killed, before its leases expire.
pub struct Kill {
    /// The tasks that the worker held.
    pub held: Vec<TaskId>,
    /// The number of stored answers of each task, by assignment.
    pub stored: BTreeMap<String, u32>,
    /// The requests that the model had received.
    pub requested: Vec<TurnCount>,
}

impl<'a> Fleet<'a> {
    pub async fn start(
        store: &'a Store,
        model: &'a ScriptServer,
        url: &str,
        config: &Path,
    ) -> anyhow::Result<Self> {
        let start = || WorkerProcess::start(url, CONCURRENCY, WorkerKind::Agents(config));
        let workers = try_join_all((0..WORKERS).map(|_| start())).await?;
        Ok(Self { store, model, workers })
    }

    pub fn size(&self) -> usize {
        self.workers.len()
    }

    /// Kills the worker that receives the answer of the fatal turn about this service, in the
    /// middle of that answer. `tasks` are all tasks with their assignments.
    pub async fn kill_during_answer(
        &mut self,
        service: &str,
        tasks: &[(&str, TaskId)],
    ) -> anyhow::Result<Kill> {
        let assignment = researchers_task(service);
        let fatal = tasks
            .iter()
            .find(|(other, _)| *other == assignment)
            .context("no task for the service")?
            .1;
        while !self.is_half_streamed(&assignment) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let busy = self.store.busy_workers().await?;
        let (victim, _) = busy
            .into_iter()
            .find(|(_, tasks)| tasks.contains(&fatal))
            .context("no worker runs the task")?;
        let index = self
            .workers
            .iter()
            .position(|worker| worker.id() == victim)
            .context("the worker was not started by the demo")?;
        self.workers.swap_remove(index).kill().await?;

        let busy = self.store.busy_workers().await?;
        let held = busy.into_iter().find(|(worker, _)| *worker == victim).map(|(_, tasks)| tasks);
        let mut stored = BTreeMap::new();
        for (assignment, task) in tasks {
            let turns = self.store.turns(*task).await?.len();
            stored.insert((*assignment).to_owned(), u32::try_from(turns)?);
        }
        // Read last: every answer stored by now was requested before.
        let requested = self.model.turns();
        Ok(Kill { held: held.unwrap_or_default(), stored, requested })
    }

    fn is_half_streamed(&self, assignment: &str) -> bool {
        self.model.requests_of(assignment).iter().any(|request| {
            let turn = request.parsed.as_ref().map(|parsed| parsed.turn);
            turn == Some(FATAL_TURN)
                && request.end.is_none()
                && request.arrived.elapsed() > HALF_STREAMED
        })
    }

    pub async fn stop(self) -> anyhow::Result<()> {
        for worker in self.workers {
            worker.kill().await?;
        }
        Ok(())
    }
}
