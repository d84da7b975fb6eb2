//! Calls of a model are reserved under limits that hold over all workers, in any 60 seconds.

use std::time::Duration;

use adjutant_agent::{TaskId, WorkerId};
use adjutant_store::{
    Grant, ModelLimits, ModelReservation, Remaining, RemainingQuota, Reserved, UsageChange,
    WantedCall,
};

use crate::support::world::{World, race};

const FOUR_A_MINUTE: ModelLimits =
    ModelLimits { requests_per_minute: Some(4), tokens_per_minute: None, max_concurrency: None };

const LEASE: Duration = Duration::from_secs(30);

/// A reservation of a new worker that holds and reports nothing.
fn reservation(limits: ModelLimits, wanted: &[WantedCall]) -> ModelReservation<'_> {
    ModelReservation {
        model: "main",
        worker: WorkerId::new(),
        lease: LEASE,
        limits,
        wanted,
        spare: Grant::default(),
        held: 0,
        changes: &[],
        call_time: None,
        remaining: Remaining::default(),
    }
}

fn calls(tasks: &[TaskId], tokens: i64) -> Vec<WantedCall> {
    tasks.iter().map(|&task| WantedCall { task, tokens, has_begun: false }).collect()
}

async fn tasks(world: &World, count: usize) -> Vec<TaskId> {
    let session = world.session().await;
    world.spawn(session, count).await.iter().map(|task| task.id).collect()
}

async fn reserve(world: &World, limits: ModelLimits, tasks: &[TaskId]) -> Reserved {
    world.store.reserve_model_calls(&reservation(limits, &calls(tasks, 1))).await.unwrap()
}

fn granted(reserved: &Reserved) -> Vec<TaskId> {
    let granted = reserved.tasks.iter().filter(|call| call.wait.is_none());
    granted.map(|call| call.task).collect()
}

fn waits(reserved: &Reserved) -> Vec<u64> {
    reserved.tasks.iter().map(|call| call.wait.unwrap_or_default().as_secs()).collect()
}

/// Moves everything that was granted and is waited for into the past.
async fn pass(world: &World, seconds: i64) {
    for passed in [
        "update model_usage set second = second - $1",
        "update model_waiter set due_at = due_at - $1 * interval '1 second'",
        "update model_permit set expires_at = expires_at - $1 * interval '1 second'",
        "update model_limit set limited_at = limited_at - $1 * interval '1 second',
            requests_reset_at = requests_reset_at - $1 * interval '1 second',
            tokens_reset_at = tokens_reset_at - $1 * interval '1 second'",
    ] {
        sqlx::query(passed).bind(seconds).execute(&world.sql).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_60_seconds_have_more_calls_of_a_model_than_its_limit() {
    let world = World::new().await;
    let tasks = tasks(&world, 9).await;
    let first = reserve(&world, FOUR_A_MINUTE, &tasks[..2]).await;
    assert_eq!(granted(&first), tasks[..2]);
    pass(&world, 30).await;
    let second = reserve(&world, FOUR_A_MINUTE, &tasks[2..5]).await;
    assert_eq!(granted(&second), tasks[2..4]);
    assert!((31..=33).contains(&waits(&second)[2]), "{second:?}");
    // The grants of the first second may have been used up to 2 s later.
    pass(&world, 29).await;
    assert_eq!(granted(&reserve(&world, FOUR_A_MINUTE, &tasks[4..5]).await), []);
    pass(&world, 4).await;
    let third = reserve(&world, FOUR_A_MINUTE, &tasks[4..]).await;
    assert_eq!(granted(&third), tasks[4..6], "only what was granted first has left the window");
    assert_eq!(world.count("select sum(requests)::bigint from model_usage").await, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_that_reserve_at_once_get_no_more_than_the_limits() {
    let world = World::with_connections(16).await;
    let tasks = tasks(&world, 48).await;
    let limits = ModelLimits {
        requests_per_minute: Some(10),
        tokens_per_minute: Some(900),
        max_concurrency: Some(11),
    };
    for model in ["by requests", "by tokens", "by concurrency"] {
        let racers = tasks.chunks(3).map(|tasks| {
            let (store, wanted) = (world.store.clone(), calls(tasks, 100));
            async move {
                let limits = match model {
                    "by requests" => ModelLimits { tokens_per_minute: None, ..limits },
                    "by tokens" => limits,
                    _ => ModelLimits {
                        max_concurrency: limits.max_concurrency,
                        ..Default::default()
                    },
                };
                let spare = Grant { requests: 9, tokens: 900 };
                let wanted = ModelReservation { model, spare, ..reservation(limits, &wanted) };
                store.reserve_model_calls(&wanted).await.unwrap()
            }
        });
        let reserved = race(racers.collect()).await;
        let granted: usize = reserved.iter().map(|reserved| granted(reserved).len()).sum();
        let spare: i64 = reserved.iter().map(|reserved| reserved.spare.requests).sum();
        let expected = match model {
            "by requests" => 10,
            "by tokens" => 9,
            _ => 11,
        };
        assert_eq!((granted, spare), (expected, 0), "{model}: {reserved:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_get_their_calls_in_the_order_in_which_they_asked() {
    let world = World::new().await;
    let tasks = tasks(&world, 12).await;
    for task in &tasks {
        reserve(&world, FOUR_A_MINUTE, &[*task]).await;
    }
    let due = "select count(*) from model_waiter where due_at between now() + $1 * interval '1 second' and now() + ($1 + 3) * interval '1 second'";
    for (seconds, expected) in [(60, 4), (123, 4)] {
        let found: i64 = sqlx::query_scalar(due).bind(seconds).fetch_one(&world.sql).await.unwrap();
        assert_eq!(found, expected, "due after {seconds} s");
    }
    pass(&world, 63).await;
    // They come back in another order, and a new one asks.
    let newcomer = self::tasks(&world, 1).await;
    assert_eq!(granted(&reserve(&world, FOUR_A_MINUTE, &newcomer).await), []);
    assert_eq!(granted(&reserve(&world, FOUR_A_MINUTE, &tasks[8..]).await), []);
    assert_eq!(granted(&reserve(&world, FOUR_A_MINUTE, &tasks[6..8]).await), tasks[6..8]);
    assert_eq!(granted(&reserve(&world, FOUR_A_MINUTE, &tasks[4..6]).await), tasks[4..6]);
    pass(&world, 63).await;
    let mut all = [&newcomer[..], &tasks[8..]].concat();
    all.reverse();
    assert_eq!(granted(&reserve(&world, FOUR_A_MINUTE, &all).await), tasks[8..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_does_not_come_back_holds_up_others_for_10_seconds() {
    let world = World::new().await;
    let tasks = tasks(&world, 9).await;
    reserve(&world, FOUR_A_MINUTE, &tasks).await;
    // The first four waiters do not come.
    pass(&world, 63 + 5).await;
    assert_eq!(granted(&reserve(&world, FOUR_A_MINUTE, &tasks[8..]).await), []);
    pass(&world, 10).await;
    assert_eq!(granted(&reserve(&world, FOUR_A_MINUTE, &tasks[8..]).await), tasks[8..]);
    assert_eq!(
        granted(&reserve(&world, FOUR_A_MINUTE, &tasks[4..8]).await),
        tasks[4..7],
        "they kept their places"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_has_had_a_call_comes_before_those_that_have_not() {
    let world = World::new().await;
    let tasks = tasks(&world, 6).await;
    reserve(&world, FOUR_A_MINUTE, &tasks).await;
    let again = [WantedCall { task: tasks[0], tokens: 1, has_begun: true }];
    world.store.reserve_model_calls(&reservation(FOUR_A_MINUTE, &again)).await.unwrap();
    let first: uuid::Uuid =
        sqlx::query_scalar("select task from model_waiter order by place, task limit 1")
            .fetch_one(&world.sql)
            .await
            .unwrap();
    assert_eq!(TaskId(first), tasks[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_take_turns_at_a_limited_model() {
    let world = World::new().await;
    let flood = tasks(&world, 40).await;
    reserve(&world, FOUR_A_MINUTE, &flood).await;
    let session = world.session_with(|session| session.tenant = "other".to_owned()).await;
    let one = world.spawn(session, 1).await[0].id;
    let reserved = reserve(&world, FOUR_A_MINUTE, &[one]).await;
    assert!(waits(&reserved)[0] <= 63, "in the next minute, not in the tenth: {reserved:?}");
    pass(&world, 63).await;
    assert_eq!(granted(&reserve(&world, FOUR_A_MINUTE, &[one]).await), [one]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_reserved_by_estimate_and_settled_after_the_call() {
    let world = World::new().await;
    let tasks = tasks(&world, 3).await;
    let limits = ModelLimits { tokens_per_minute: Some(1000), ..ModelLimits::default() };
    let reserve = async |task, tokens, changes: &[UsageChange]| {
        let wanted = calls(&[task], tokens);
        let wanted = ModelReservation { changes, ..reservation(limits, &wanted) };
        world.store.reserve_model_calls(&wanted).await.unwrap()
    };
    let first = reserve(tasks[0], 700, &[]).await;
    assert_eq!(granted(&first), tasks[..1]);
    assert_eq!(granted(&reserve(tasks[1], 700, &[]).await), []);
    // The first call used less than estimated.
    let less = UsageChange { second: first.second, requests: 0, tokens: -450 };
    let second = reserve(tasks[1], 700, &[less]).await;
    assert_eq!(granted(&second), tasks[1..2]);
    assert_eq!(world.count("select sum(tokens)::bigint from model_usage").await, 950);
    // The second one used more.
    let more = UsageChange { second: second.second, requests: 0, tokens: 100 };
    assert_eq!(granted(&reserve(tasks[2], 10, &[more]).await), []);
    pass(&world, 63).await;
    let alone = reserve(tasks[2], 5000, &[]).await;
    assert_eq!(granted(&alone), tasks[2..], "what is above the limit counts as the limit");
    assert_eq!(alone.tasks[0].tokens, 1000);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_calls_of_a_dead_worker_come_back_after_its_lease() {
    let world = World::new().await;
    let tasks = tasks(&world, 4).await;
    let limits = ModelLimits { max_concurrency: Some(2), ..ModelLimits::default() };
    let wanted = calls(&tasks[..1], 1);
    let living = reservation(limits, &wanted);
    assert_eq!(granted(&world.store.reserve_model_calls(&living).await.unwrap()), tasks[..1]);
    assert_eq!(granted(&reserve(&world, limits, &tasks[1..2]).await), tasks[1..2]);
    assert_eq!(granted(&reserve(&world, limits, &tasks[2..]).await), []);
    pass(&world, 20).await;
    // One renews its permit, the other is dead.
    let renewal = ModelReservation { held: 1, wanted: &[], ..living };
    world.store.reserve_model_calls(&renewal).await.unwrap();
    assert_eq!(granted(&reserve(&world, limits, &tasks[2..]).await), []);
    pass(&world, 15).await;
    assert_eq!(granted(&reserve(&world, limits, &tasks[2..]).await), tasks[2..3]);
    // A call that has ended makes room at once.
    let ended = ModelReservation { held: 0, ..renewal };
    world.store.reserve_model_calls(&ended).await.unwrap();
    assert_eq!(granted(&reserve(&world, limits, &tasks[3..]).await), tasks[3..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_providers_headers_leave_holds_until_their_reset() {
    let world = World::new().await;
    let tasks = tasks(&world, 8).await;
    let limits = ModelLimits { requests_per_minute: Some(100), ..FOUR_A_MINUTE };
    reserve(&world, limits, &tasks[..1]).await;
    let quota = RemainingQuota { left: 2, resets_in: Duration::from_secs(20) };
    let remaining = Remaining { requests: Some(quota), tokens: None };
    let report = ModelReservation { remaining, ..reservation(limits, &[]) };
    world.store.reserve_model_calls(&report).await.unwrap();
    let reserved = reserve(&world, limits, &tasks[1..5]).await;
    assert_eq!(granted(&reserved), tasks[1..3], "others use the same account");
    assert!((18..=20).contains(&waits(&reserved)[2]), "{reserved:?}");
    pass(&world, 21).await;
    assert_eq!(granted(&reserve(&world, limits, &tasks[3..]).await), tasks[3..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_smallest_limit_that_a_worker_asks_with_holds_for_a_minute() {
    let world = World::new().await;
    let tasks = tasks(&world, 20).await;
    let more = ModelLimits { requests_per_minute: Some(8), ..FOUR_A_MINUTE };
    assert_eq!(granted(&reserve(&world, more, &tasks[..6]).await).len(), 6);
    assert_eq!(granted(&reserve(&world, FOUR_A_MINUTE, &tasks[6..7]).await), []);
    assert_eq!(granted(&reserve(&world, more, &tasks[7..8]).await), []);
    pass(&world, 63).await;
    let reserved = reserve(&world, more, &tasks[6..]).await;
    assert_eq!(granted(&reserved).len(), 8, "nobody has asked with the smaller one since");
}

#[tokio::test(flavor = "multi_thread")]
async fn spare_calls_are_a_part_of_the_limit_and_what_is_unused_is_returned() {
    let world = World::new().await;
    let tasks = tasks(&world, 3).await;
    let limits = ModelLimits { requests_per_minute: Some(61), ..FOUR_A_MINUTE };
    let wanted = calls(&tasks[..1], 0);
    let spare = Grant { requests: 50, tokens: 1 };
    let wanted = ModelReservation { spare, ..reservation(limits, &wanted) };
    let reserved = world.store.reserve_model_calls(&wanted).await.unwrap();
    assert_eq!(reserved.spare.requests, 6, "a tenth of what is left");
    assert_eq!(world.count("select sum(requests)::bigint from model_usage").await, 7);
    let changes = [UsageChange { second: reserved.second, requests: -6, tokens: -1 }];
    let unused = ModelReservation { changes: &changes, ..reservation(limits, &[]) };
    world.store.reserve_model_calls(&unused).await.unwrap();
    assert_eq!(world.count("select sum(requests)::bigint from model_usage").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_task_waits_for_no_call() {
    let world = World::new().await;
    let session = world.session().await;
    let waiting = world.spawn(session, 6).await;
    let ids: Vec<TaskId> = waiting.iter().map(|task| task.id).collect();
    reserve(&world, FOUR_A_MINUTE, &ids).await;
    assert_eq!(world.count("select count(*) from model_waiter").await, 2);
    world.store.cancel(waiting[4].id).await.unwrap();
    assert_eq!(world.count("select count(*) from model_waiter").await, 1);
    // It may ask once more before its worker learns of it.
    reserve(&world, FOUR_A_MINUTE, &ids[4..5]).await;
    assert_eq!(world.count("select count(*) from model_waiter").await, 1);
}
