//! The database of one test, copied from a template, with a store on it and shortcuts for set-up.

use std::future::Future;
use std::time::Duration;

use adjutant_agent::{
    Answer, ErrorCode, LeaseId, SessionId, TaskId, TaskNumber, TaskState, ToolDefinition, Turn,
    Usage,
};
use adjutant_store::{
    Claim, Error, Lease, NewKey, NewSession, NewTask, NewWorker, Spawned, Store, Worker,
};
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{PgPool, Postgres, Transaction};
use uuid::Uuid;

use super::database::{self, execute};

/// How long a test waits for a condition before it fails.
const PATIENCE: Duration = Duration::from_secs(30);

pub struct World {
    pub store: Store,
    /// For set-up and checks that no verb does: expire a lease, hold a transaction open, count
    /// rows.
    pub sql: PgPool,
    url: String,
}

impl World {
    pub async fn new() -> Self {
        Self::with_connections(8).await
    }

    pub async fn with_connections(connections: u32) -> Self {
        Self::over(database::migrated().await, connections).await
    }

    /// A world on another server than the one that all tests share.
    pub async fn at(url: &str) -> Self {
        Store::migrate(url).await.unwrap();
        Self::over(url.to_owned(), 8).await
    }

    async fn over(url: String, connections: u32) -> Self {
        let options: PgConnectOptions = url.parse().unwrap();
        Self {
            store: Store::open(&url, connections).await.unwrap(),
            sql: PgPoolOptions::new().max_connections(8).connect_with(options).await.unwrap(),
            url,
        }
    }

    /// The URL of a new, empty database.
    pub async fn empty_database() -> String {
        database::empty().await
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub async fn session(&self) -> SessionId {
        self.session_with(|_| ()).await
    }

    pub async fn session_with(&self, change: impl FnOnce(&mut NewSession)) -> SessionId {
        let mut new = NewSession {
            tenant: "tenant".to_owned(),
            name: Uuid::now_v7().to_string(),
            ..NewSession::default()
        };
        change(&mut new);
        self.store.create_session(&new).await.unwrap().id
    }

    /// The secret of a new API key with one scope.
    pub async fn api_key(&self, tenant: &str, scope: &str) -> String {
        let key = NewKey {
            tenant: tenant.to_owned(),
            name: "test".to_owned(),
            scopes: vec![scope.to_owned()],
            expires_at: None,
            ..NewKey::default()
        };
        self.store.create_key(&key).await.unwrap().1
    }

    pub async fn worker(&self) -> Worker {
        self.store
            .register(&NewWorker { name: "test".to_owned(), ..NewWorker::default() })
            .await
            .unwrap()
    }

    /// A worker that may sweep: one that has renewed twice.
    pub async fn steady_worker(&self) -> Worker {
        let worker = self.worker().await;
        for _ in 0..2 {
            worker.renew(&[]).await.unwrap();
        }
        worker
    }

    /// Spawns `count` plain tasks, which queue if the session's window is full.
    pub async fn spawn(&self, session: SessionId, count: usize) -> Vec<Spawned> {
        self.store.spawn(session, &vec![queued(); count], None).await.unwrap()
    }

    pub async fn spawn_one(&self, session: SessionId, task: NewTask) -> Spawned {
        self.store.spawn(session, &[task], None).await.unwrap().remove(0)
    }

    /// Claims a task, and checks that there was one.
    pub async fn claim_one(&self, worker: &Worker) -> Claim {
        let mut claims = worker.claim(1).await.unwrap();
        assert_eq!(claims.len(), 1, "there should be one task to claim");
        claims.remove(0)
    }

    /// A session with one task, which a worker that may sweep has just claimed.
    pub async fn one_running(&self) -> (SessionId, Worker, Claim) {
        let session = self.session().await;
        let worker = self.steady_worker().await;
        self.spawn(session, 1).await;
        let claim = self.claim_one(&worker).await;
        (session, worker, claim)
    }

    pub async fn state(&self, session: SessionId, number: TaskNumber) -> TaskState {
        self.store.status(session, number).await.unwrap().state
    }

    /// Sets the expiry of a lease to an hour ago.
    pub async fn expire(&self, lease: LeaseId) {
        let expired =
            sqlx::query("update slot set expires_at = now() - interval '1 hour' where lease = $1")
                .bind(lease.0)
                .execute(&self.sql)
                .await
                .unwrap();
        assert_eq!(expired.rows_affected(), 1, "the lease should be held");
    }

    /// Runs a statement in a transaction that the test keeps open, so that others wait for its
    /// locks.
    pub async fn hold(&self, statement: &str) -> Transaction<'static, Postgres> {
        let mut transaction = self.sql.begin().await.unwrap();
        execute(&mut transaction, statement).await;
        transaction
    }

    /// A completion that is written but not committed.
    pub async fn hold_completion(&self, lease: &Lease) -> Transaction<'static, Postgres> {
        self.hold(&format!("select end_1({}, true)", completion(lease))).await
    }

    /// A spawn of one task that is written but not committed: with these options, and with the
    /// limits of its tenant as SQL (or null).
    pub async fn hold_spawn(
        &self,
        session: SessionId,
        options: &str,
        limits: &str,
    ) -> Transaction<'static, Postgres> {
        let (session, id) = (session.0, Uuid::now_v7());
        self.hold(&format!(
            "select spawn_1(
                row(array[{session}], array['{id}'::uuid], array['a'], array['x'], array['default'], array[0],
                    array['{options}'::jsonb], array[1], array['resume'], array['{{}}'::jsonb])::new_tasks,
                null, null, null, {limits}, null, null
            )"
        ))
        .await
    }

    /// A claim of one task that is written but not committed.
    pub async fn hold_claim(&self, worker: &Worker) -> Transaction<'static, Postgres> {
        self.hold(&format!("select from claim_1('{}', 1)", worker.id())).await
    }

    /// Waits until `count` connections of this database wait for a lock.
    pub async fn until_blocked(&self, count: i64) {
        until("a lock is waited for", async || {
            let waiting: i64 = sqlx::query_scalar(
                "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
            )
            .fetch_one(&self.sql)
            .await
            .unwrap();
            waiting >= count
        })
        .await;
    }

    /// Starts calls that wait for tasks, and returns when `count` of them have begun to poll. They
    /// wait for a lock in the middle of their poll until then. (The last query of an idle
    /// connection would not do: the connection may serve other calls since.)
    pub async fn until_polling<T>(&self, count: i64, start: impl AsyncFnOnce() -> T) -> T {
        let tasks = self.hold("lock table task in access exclusive mode").await;
        let started = start().await;
        until("a wait polls", async || {
            let polls = "select count(*) from pg_stat_activity
                where datname = current_database() and wait_event_type = 'Lock' and query like '%wait_1(%'";
            self.count(polls).await >= count
        })
        .await;
        tasks.commit().await.unwrap();
        started
    }

    pub async fn count(&self, query: &'static str) -> i64 {
        sqlx::query_scalar(query).fetch_one(&self.sql).await.unwrap()
    }

    /// Deletes a session, and all of its rows, as workers do.
    pub async fn delete(&self, session: SessionId) {
        self.store.delete_session(session).await.unwrap();
        while self.store.delete_batch().await.unwrap() {}
    }

    /// Checks that the view `invariant_violation` is empty.
    pub async fn assert_sound(&self) {
        let violations = self.store.violations().await.unwrap();
        assert!(violations.is_empty(), "{violations:#?}");
    }

    /// Claims and completes tasks, without a sweep, until all have ended. Returns them in the order
    /// of their claims.
    pub async fn drain(&self, worker: &Worker) -> Vec<TaskId> {
        let mut order = Vec::new();
        loop {
            let claims = worker.claim(100).await.unwrap();
            if claims.is_empty() {
                break;
            }
            for claim in claims {
                order.push(claim.lease.task());
                claim.lease.complete("done".to_owned(), None).write().await.unwrap();
            }
        }
        let unfinished = self.count("select count(*) from task where finished_at is null").await;
        assert_eq!(unfinished, 0, "everything should have ended");
        self.assert_sound().await;
        order
    }
}

/// The arguments of `end_1` and `end_and_claim_1` for a completion.
pub fn completion(lease: &Lease) -> String {
    let (slot, task, lease) = (lease.slot(), lease.task(), lease.id());
    format!(
        "array[{slot}], array['{task}'::uuid], array['{lease}'::uuid], array['completed'], array['done'], array[null::jsonb]"
    )
}

/// The definition of a tool that a worker has published.
pub fn tool(name: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        description: format!("What {name} does"),
        input_schema: json!({"type": "object"}),
        replay: Default::default(),
    }
}

pub fn queued() -> NewTask {
    NewTask { queue: true, ..task() }
}

pub fn task() -> NewTask {
    NewTask { agent: "tester".to_owned(), assignment: "Test it.".to_owned(), ..NewTask::default() }
}

pub fn turn(text: &str) -> Turn {
    Turn {
        answer: Answer::of_text(text),
        usage: Usage { input_tokens: 10, output_tokens: 2, cost_nanousd: 30, ..Usage::default() },
        ..Turn::default()
    }
}

#[track_caller]
pub fn assert_refused<T: std::fmt::Debug>(answer: Result<T, Error>, code: ErrorCode) -> String {
    match answer {
        Err(Error::Refused(refusal)) if refusal.code == code => refusal.message,
        other => panic!("expected {code}, got {other:?}"),
    }
}

#[track_caller]
pub fn assert_lost<T: std::fmt::Debug>(answer: Result<T, Error>) {
    assert!(matches!(answer, Err(Error::LeaseLost(_))), "expected a lost lease, got {answer:?}");
}

/// Waits until a condition holds. Tests wait for conditions and not for times.
pub async fn until(what: &str, condition: impl AsyncFnMut() -> bool) {
    until_within(PATIENCE, what, condition).await;
}

pub async fn until_within(
    patience: Duration,
    what: &str,
    mut condition: impl AsyncFnMut() -> bool,
) {
    let wait = async {
        let mut tick = tokio::time::interval(Duration::from_millis(5));
        while !condition().await {
            tick.tick().await;
        }
    };
    tokio::time::timeout(patience, wait)
        .await
        .unwrap_or_else(|_| panic!("timed out waiting until {what}"));
}

/// Runs futures concurrently; a barrier starts them at the same time.
pub async fn race<F: Future<Output: Send + 'static> + Send + 'static>(
    racers: Vec<F>,
) -> Vec<F::Output> {
    let start = std::sync::Arc::new(tokio::sync::Barrier::new(racers.len()));
    let running: Vec<_> = racers
        .into_iter()
        .map(|racer| {
            let start = start.clone();
            tokio::spawn(async move {
                start.wait().await;
                racer.await
            })
        })
        .collect();
    let mut outputs = Vec::new();
    for racer in running {
        outputs.push(racer.await.unwrap());
    }
    outputs
}
