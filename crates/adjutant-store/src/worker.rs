use std::time::Duration;

use adjutant_agent::{Refusal, WorkerId, check_pool};

use crate::{Abilities, Result, Store};

/// The shortest lease. A shorter one would expire in an ordinary scheduling pause.
const MIN_LEASE: Duration = Duration::from_secs(2);

/// A worker process to register.
#[derive(Debug, Clone)]
pub struct NewWorker {
    /// Host and process id, for display.
    pub name: String,
    pub pool: String,
    pub concurrency: i32,
    pub version: String,
    pub lease: Duration,
    pub abilities: Abilities,
}

impl Default for NewWorker {
    fn default() -> Self {
        Self {
            name: String::new(),
            pool: "default".to_owned(),
            concurrency: 5,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            lease: Duration::from_secs(30),
            abilities: Abilities::default(),
        }
    }
}

/// A registered worker process: it claims, renews and sweeps.
#[derive(Debug, Clone)]
pub struct Worker {
    /// The store that its leases write to.
    pub(crate) store: Store,
    /// The store for its own calls.
    pub(crate) calls: Store,
    pub(crate) id: WorkerId,
}

impl Store {
    /// Registers a worker process.
    pub async fn register(&self, new: &NewWorker) -> Result<Worker> {
        if new.lease < MIN_LEASE {
            return Err(Refusal::invalid("lease.seconds", "must be at least 2").into());
        }
        if new.concurrency < 1 {
            return Err(Refusal::invalid("concurrency", "must be at least 1").into());
        }
        check_pool("pool", &new.pool)?;
        let id = WorkerId::new();
        self.call(async |connection| {
            sqlx::query!(
                "insert into worker (id, name, pool, concurrency, version, lease)
             values ($1, $2, $3, $4, $5, make_interval(secs => $6))",
                id.0,
                new.name,
                new.pool,
                new.concurrency,
                new.version,
                new.lease.as_secs_f64()
            )
            .execute(connection)
            .await
        })
        .await?;
        let worker = Worker { store: self.clone(), calls: self.clone(), id };
        worker.set_abilities(&new.abilities).await?;
        Ok(worker)
    }
}

impl Worker {
    pub fn id(&self) -> WorkerId {
        self.id
    }

    /// The same worker with other connections for its own calls. Its leases keep their store.
    pub fn with_store(&self, calls: &Store) -> Self {
        Self { store: self.store.clone(), calls: calls.clone(), id: self.id }
    }

    /// Marks the worker as stopped. Leases that it still holds expire.
    pub async fn stop(&self) -> Result<()> {
        self.calls
            .call(async |connection| {
                sqlx::query!(
                    "update worker set stopped_at = now() where id = $1 and stopped_at is null",
                    self.id.0
                )
                .execute(connection)
                .await
            })
            .await?;
        Ok(())
    }
}
