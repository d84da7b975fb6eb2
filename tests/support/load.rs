//! Tasks that play a simulation instead of calling a model, for tests of a fleet.

use adjutant_agent::TaskId;
use adjutant_store::NewTask;
use serde_json::Value;

use crate::support::world::{World, queued};

/// A task that plays a simulation and survives the death of up to 100 workers.
pub fn simulation(simulation: Value) -> NewTask {
    let config = [("simulation".to_owned(), simulation)].into_iter().collect();
    NewTask { config, max_failures: 100, ..queued() }
}

impl World {
    /// Spawns one task in a session of its own.
    pub async fn spawn_alone(&self, task: NewTask) -> TaskId {
        let session = self.session().await;
        self.spawn_one(session, task).await.id
    }

    /// Spawns `count` tasks, five in each session, because a session runs five at once.
    pub async fn spawn_many(&self, count: usize, task: &NewTask) -> Vec<TaskId> {
        let mut ids = Vec::new();
        while ids.len() < count {
            let session = self.session().await;
            let some = vec![task.clone(); 5.min(count - ids.len())];
            let spawned = self.store.spawn(session, &some, None).await.unwrap();
            ids.extend(spawned.iter().map(|spawned| spawned.id));
        }
        ids
    }
}
