//! Assertions about a fleet, during its work and afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use adjutant_agent::TaskId;
use sqlx::{Connection, PgConnection};
use tokio::task::JoinHandle;

use crate::support::world::{World, until_within};

/// Samples the slots on its own connection and asserts that, between two samples at the same cap,
/// the number in use stays within the cap or falls. It reconnects to a database that is down.
pub struct Sampler {
    done: Arc<AtomicBool>,
    changes: Arc<AtomicU64>,
    samples: JoinHandle<u64>,
}

impl Sampler {
    pub fn start(world: &World) -> Self {
        let (done, changes) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let samples = tokio::spawn(sample(world.url().to_owned(), done.clone(), changes.clone()));
        Self { done, changes, samples }
    }

    /// Changes the cap. Samples before and after the change are not compared.
    pub async fn set_cap(&self, world: &World, cap: i32) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        world.store.set_cap(cap).await.unwrap();
        self.changes.fetch_add(1, Ordering::SeqCst);
    }

    async fn finish(self) {
        self.done.store(true, Ordering::SeqCst);
        let samples = self.samples.await.unwrap();
        assert!(samples > 10, "only {samples} samples");
    }
}

async fn sample(url: String, done: Arc<AtomicBool>, changes: Arc<AtomicU64>) -> u64 {
    let mut samples = 0;
    let mut connection = None;
    let mut last: Option<(u64, i64)> = None;
    let mut tick = tokio::time::interval(Duration::from_millis(10));
    while !done.load(Ordering::SeqCst) {
        tick.tick().await;
        if connection.is_none() {
            connection = PgConnection::connect(&url).await.ok();
        }
        let Some(open) = connection.as_mut() else { continue };
        let before = changes.load(Ordering::SeqCst);
        let slots = sqlx::query_as("select count(*) filter (where open), count(task) from slot");
        let Ok((cap, used)) = slots.fetch_one(open).await else {
            connection = None;
            continue;
        };
        let steady = before.is_multiple_of(2) && changes.load(Ordering::SeqCst) == before;
        if let Some((then, used_then)) = last.filter(|(then, _)| steady && *then == before) {
            let bound = i64::max(cap, used_then);
            assert!(used <= bound, "{used} in use, {used_then} before, at cap {cap} ({then})");
        }
        last = steady.then_some((before, used));
        samples += 1;
    }
    samples
}

/// How long the fleet may take for all tasks.
const DEADLINE: Duration = Duration::from_secs(90);

impl World {
    pub async fn finished(&self) -> i64 {
        // The database may be down at this time.
        sqlx::query_scalar("select count(*) from task where finished_at is not null")
            .fetch_one(&self.sql)
            .await
            .unwrap_or(0)
    }

    pub async fn until_finished(&self, count: i64) {
        until_within(DEADLINE, &format!("{count} tasks have ended"), async || {
            self.finished().await >= count
        })
        .await;
    }

    /// Waits until all tasks have completed, and asserts that each did so once, with its result and
    /// all turns.
    pub async fn all_complete_once(&self, tasks: &[TaskId], turns: i64, sampler: Sampler) {
        self.until_finished(i64::try_from(tasks.len()).unwrap()).await;
        sampler.finish().await;
        self.assert_ended_once().await;
        let ids: Vec<_> = tasks.iter().map(|task| task.0).collect();
        let correct: i64 = sqlx::query_scalar(
            "select count(*) from task t
             where t.id = any($1) and t.state = 'completed' and t.result like 'started_us=%'
               and (select count(*) from turn where task = t.id) = $2",
        )
        .bind(&ids)
        .bind(turns)
        .fetch_one(&self.sql)
        .await
        .unwrap();
        assert_eq!(
            correct,
            i64::try_from(tasks.len()).unwrap(),
            "all completed, with result and turns"
        );
    }

    /// For tests in which no lease expires: only tasks without a turn were released.
    pub async fn assert_no_work_was_thrown_away(&self) {
        let abandoned = "select count(*) from attempt where outcome <> 'completed' and turns > 0";
        assert_eq!(self.count(abandoned).await, 0);
    }

    /// Every task has ended once, its turns have no gap, and no attempt follows the one that ended
    /// it.
    pub async fn assert_ended_once(&self) {
        for (problem, query) in [
            ("not ended", "select id from task where finished_at is null"),
            (
                "not ended once",
                "select t.id from task t
                 where (select count(*) from event e where e.task = t.id and e.kind in ('completed', 'failed', 'cancelled')) <> 1",
            ),
            (
                "completed in another attempt than the last",
                "select t.id from task t
                 where t.state = 'completed' and array(
                    select a.attempt from attempt a where a.task = t.id and a.outcome = 'completed'
                 ) <> array[(select max(a.attempt) from attempt a where a.task = t.id)]",
            ),
            (
                "a gap in its attempts",
                "select task from attempt group by task having count(*) <> max(attempt) or min(attempt) <> 1",
            ),
            (
                "turns stored twice, or not at all",
                "select task from turn group by task having count(*) <> max(number) or count(distinct number) <> count(*)",
            ),
            ("a slot in use", "select task from slot where task is not null"),
        ] {
            let wrong: Vec<(uuid::Uuid,)> = sqlx::query_as(query).fetch_all(&self.sql).await.unwrap();
            assert!(wrong.is_empty(), "{problem}: {wrong:?}");
        }
        self.assert_sound().await;
    }
}
