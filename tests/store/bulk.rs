//! Cancels and retries of all tasks that match a filter.

pub mod retries;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use adjutant_agent::{ErrorCode, FailureKind, TaskId, TaskState};
use adjutant_store::{
    Actor, BulkAction, BulkBatch, Cursor, NewTask, SkipReason, Store, TaskFilter,
};
use serde_json::{Value, json};

use crate::support::world::{World, assert_lost, assert_refused, queued, race, task};

fn filter(change: impl FnOnce(&mut TaskFilter)) -> TaskFilter {
    let mut filter = TaskFilter { tenant: "tenant".to_owned(), ..TaskFilter::default() };
    change(&mut filter);
    filter
}

fn in_state(state: TaskState) -> TaskFilter {
    filter(|filter| filter.state = Some(state))
}

fn of_agent(agent: &str) -> NewTask {
    NewTask { agent: agent.to_owned(), ..queued() }
}

#[derive(Clone, Copy)]
enum Step {
    Cancel,
    Retry,
    CountCancels,
}

/// Runs batch after batch, and returns their answers.
async fn to_the_end(
    store: &Store,
    step: Step,
    filter: &TaskFilter,
    start: Option<Cursor>,
) -> Vec<BulkBatch> {
    let (mut batches, mut cursor) = (Vec::new(), start);
    loop {
        let done = match step {
            Step::Cancel => store.cancel_matching(filter, cursor.as_ref()).await,
            Step::Retry => store.retry_matching(filter, cursor.as_ref()).await,
            Step::CountCancels => {
                store.count_matching(BulkAction::Cancel, filter, cursor.as_ref()).await
            }
        };
        let done = done.unwrap();
        assert_eq!(done.next_cursor.is_some(), done.searched_until.is_some(), "{done:?}");
        cursor = done.next_cursor.as_ref().map(|next| next.parse().unwrap());
        batches.push(done);
        if cursor.is_none() {
            return batches;
        }
    }
}

async fn cancel_all(store: &Store, filter: &TaskFilter) -> Vec<BulkBatch> {
    to_the_end(store, Step::Cancel, filter, None).await
}

async fn retry_all(store: &Store, filter: &TaskFilter) -> Vec<BulkBatch> {
    to_the_end(store, Step::Retry, filter, None).await
}

fn tasks(batches: &[BulkBatch]) -> usize {
    batches.iter().map(|batch| batch.tasks).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bulk_cancel_takes_the_tasks_that_match_with_everything_below_them() {
    let world = World::new().await;
    let (session, worker) = (world.session().await, world.worker().await);
    let parent = world.spawn_one(session, of_agent("scout")).await;
    let mut claim = world.claim_one(&worker).await;
    let below = claim.lease.spawn(&[task(), task()], None).await.unwrap();
    let waiting = world.spawn_one(session, of_agent("scout")).await;
    let other = world.spawn_one(session, of_agent("writer")).await;
    let theirs = world.session_with(|new| new.tenant = "other".to_owned()).await;
    let theirs = world.spawn_one(theirs, of_agent("scout")).await;

    let scouts = filter(|filter| filter.agent = Some("scout".to_owned()));
    let counted = world.store.count_matching(BulkAction::Cancel, &scouts, None).await.unwrap();
    assert_eq!((counted.dry_run, counted.tasks, counted.next_cursor), (true, 2, None));
    assert_eq!(world.count("select count(*) from task where finished_at is not null").await, 0);

    let batches = cancel_all(&world.store, &scouts).await;
    assert_eq!((batches.len(), batches[0].tasks, batches[0].below), (1, 2, 2), "{batches:?}");
    let ended: BTreeSet<TaskId> = batches[0].ended.iter().copied().collect();
    assert_eq!(ended, [parent.id, below[0].id, below[1].id, waiting.id].into());
    assert_lost(claim.lease.checkpoint(&crate::support::world::turn("more")).await);
    assert_eq!(world.state(session, other.number).await, TaskState::Queued);
    assert_eq!(
        world.store.task("other", theirs.id).await.unwrap().entry.task.state,
        TaskState::Queued
    );
    let again = cancel_all(&world.store, &scouts).await;
    assert_eq!((again.len(), again[0].tasks, again[0].skipped.len()), (1, 0, 0));
    world.assert_sound().await;
    world.drain(&worker).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_and_its_parent_that_both_match_are_cancelled_once() {
    let world = World::new().await;
    let (session, worker) = (world.session().await, world.worker().await);
    world.spawn(session, 1).await;
    let claim = world.claim_one(&worker).await;
    claim.lease.spawn(&[task()], None).await.unwrap();
    let batches = cancel_all(&world.store, &filter(|_| ())).await;
    assert_eq!((batches[0].tasks, batches[0].below), (2, 0));
    assert_eq!(world.count("select count(*) from event where kind = 'cancelled'").await, 2);
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_state_is_cancelled_by_itself() {
    let world = World::new().await;
    let (session, worker) = (world.session().await, world.worker().await);
    world.spawn(session, 3).await;
    let claim = world.claim_one(&worker).await;
    let lost = world.claim_one(&worker).await;
    world.expire(lost.lease.id()).await;
    let after = adjutant_store::Dependency::Task(claim.assignment.number);
    let waiting = NewTask { depends_on: vec![after], ..queued() };
    world.spawn_one(session, waiting).await;
    for (state, expected) in
        [(TaskState::Waiting, 1), (TaskState::Queued, 2), (TaskState::Running, 1)]
    {
        let batches = cancel_all(&world.store, &in_state(state)).await;
        assert_eq!(tasks(&batches), expected, "{state}: a lease that has ended is not running");
    }
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_starts_meanwhile_is_not_cancelled_as_queued() {
    let world = World::new().await;
    let (session, worker) = (world.session().await, world.worker().await);
    let spawned = world.spawn(session, 2).await;
    let claim = world.hold_claim(&worker).await;
    let store = world.store.clone();
    let cancel =
        tokio::spawn(
            async move { store.cancel_matching(&in_state(TaskState::Queued), None).await },
        );
    world.until_blocked(1).await;
    claim.commit().await.unwrap();
    let batch = cancel.await.unwrap().unwrap();
    assert_eq!((batch.tasks, batch.skipped), (1, [(SkipReason::Changed, 1)].into()));
    assert_eq!(world.state(session, spawned[0].number).await, TaskState::Running);
    assert_eq!(world.state(session, spawned[1].number).await, TaskState::Cancelled);
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_ends_meanwhile_keeps_its_result() {
    let world = World::new().await;
    let (session, _, claim) = world.one_running().await;
    let number = claim.assignment.number;
    let completion = world.hold_completion(&claim.lease).await;
    let store = world.store.clone();
    let cancel = tokio::spawn(async move { store.cancel_matching(&filter(|_| ()), None).await });
    world.until_blocked(1).await;
    completion.commit().await.unwrap();
    let batch = cancel.await.unwrap().unwrap();
    assert_eq!((batch.tasks, batch.skipped), (0, [(SkipReason::Changed, 1)].into()));
    assert_eq!(world.state(session, number).await, TaskState::Completed);
    assert_eq!(world.count("select count(*) from audit").await, 0);
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_bulk_cancels_at_once_cancel_each_task_once() {
    let world = World::new().await;
    for _ in 0..5 {
        let session = world.session().await;
        world.spawn_queued(session, 100, &queued()).await;
    }
    let racers: Vec<_> = (0..2)
        .map(|_| {
            let store = world.store.clone();
            async move { tasks(&cancel_all(&store, &filter(|_| ())).await) }
        })
        .collect();
    let cancelled = race(racers).await;
    assert_eq!(cancelled.iter().sum::<usize>(), 500, "{cancelled:?}");
    assert_eq!(world.count("select count(*) from event where kind = 'cancelled'").await, 500);
    assert_eq!(world.count("select count(*) from task where state <> 'cancelled'").await, 0);
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_handles_a_bounded_number_of_tasks_and_the_next_goes_on_behind_it() {
    let world = World::new().await;
    let session = world.session_with(|new| new.max_queued = Some(1000)).await;
    world.spawn_queued(session, 450, &queued()).await;
    let first = world.store.cancel_matching(&filter(|_| ()), None).await.unwrap();
    assert_eq!((first.tasks, first.next_cursor.is_some()), (200, true));
    assert_eq!(
        world.count("select min(number)::bigint from task where state = 'cancelled'").await,
        251,
        "the newest first"
    );
    // What is spawned meanwhile is newer.
    let later = world.spawn(session, 1).await.remove(0);
    let cursor = first.next_cursor.map(|next| next.parse::<Cursor>().unwrap());
    let rest = to_the_end(&world.store, Step::Cancel, &filter(|_| ()), cursor).await;
    assert_eq!(rest.iter().map(|batch| batch.tasks).collect::<Vec<_>>(), [200, 50]);
    assert_eq!(world.state(session, later.number).await, TaskState::Queued);
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_ends_no_further_tree_when_it_has_many_tasks_to_end() {
    let world = World::new().await;
    let session = world.session().await;
    let spawned = world.spawn(session, 5).await;
    let newest_first: Vec<_> = spawned.iter().rev().map(|task| task.id.0).collect();
    let (handled, cancelled): (i32, i32) = sqlx::query_as(
        "select handled, cancelled from cancel_many_1('tenant', $1, 'unfinished', 2)",
    )
    .bind(&newest_first)
    .fetch_one(&world.sql)
    .await
    .unwrap();
    assert_eq!((handled, cancelled), (2, 2));
    assert_eq!(world.count("select count(*) from task where finished_at is null").await, 3);
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ids_of_another_tenant_are_not_cancelled() {
    let world = World::new().await;
    let theirs = world.session_with(|new| new.tenant = "other".to_owned()).await;
    let theirs = world.spawn(theirs, 1).await.remove(0).id;
    let cancelled: i32 = sqlx::query_scalar(
        "select cancelled from cancel_many_1('tenant', array[$1], 'unfinished', 100)",
    )
    .bind(theirs.0)
    .fetch_one(&world.sql)
    .await
    .unwrap();
    let reason: String =
        sqlx::query_scalar("select reason from not_retried_1('tenant', array[$1])")
            .bind(theirs.0)
            .fetch_one(&world.sql)
            .await
            .unwrap();
    assert_eq!((cancelled, reason.as_str()), (0, "gone"));
    assert_eq!(world.count("select count(*) from task where finished_at is null").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bulk_change_is_audited_with_its_filter_but_without_texts() {
    let world = World::new().await;
    let session = world.session().await;
    world.spawn(session, 3).await;
    let actor = Actor { name: "ada".to_owned(), ..Actor::default() };
    let store = world.store.acting_for(Arc::new(actor));
    let secret = filter(|filter| {
        (filter.agent, filter.q) = (Some("tester".to_owned()), Some("TEST".to_owned()));
    });
    store.count_matching(BulkAction::Cancel, &secret, None).await.unwrap();
    assert_eq!(world.count("select count(*) from audit").await, 0, "a dry run changes nothing");
    store.cancel_matching(&secret, None).await.unwrap();
    store.retry_matching(&secret, None).await.unwrap();
    let rows: Vec<(String, String, Value)> = sqlx::query_as(
        "select action, actor, after from audit where action like 'tasks.%' order by id",
    )
    .fetch_all(&world.sql)
    .await
    .unwrap();
    let actions: Vec<_> = rows.iter().map(|(action, actor, _)| (&action[..], &actor[..])).collect();
    assert_eq!(actions, [("tasks.cancel", "ada"), ("tasks.retry", "ada")]);
    for (_, _, after) in &rows {
        assert_eq!(after["filter"], json!({"agent": "tester", "q": "(a text)"}));
        assert_eq!(after["tasks"], 3);
    }
    assert_eq!(world.count("select count(*) from audit where action = 'task.retry'").await, 3);
    assert_eq!(world.count("select count(*) from audit where action = 'task.cancel'").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_no_task_of_the_action_has_is_refused() {
    let world = World::new().await;
    let failed = filter(|filter| filter.failure = Some(FailureKind::Model));
    for (filter, field) in [
        (in_state(TaskState::Completed), "filter.state"),
        (in_state(TaskState::Failed), "filter.state"),
        (failed.clone(), "filter.failure"),
    ] {
        let refused = world.store.cancel_matching(&filter, None).await;
        let message = assert_refused(refused, ErrorCode::InvalidArgument);
        assert!(message.starts_with(field), "{message}");
    }
    for state in [TaskState::Queued, TaskState::Running, TaskState::Waiting, TaskState::Completed] {
        let refused = world.store.retry_matching(&in_state(state), None).await;
        let message = assert_refused(refused, ErrorCode::InvalidArgument);
        assert!(message.starts_with("filter.state"), "{message}");
    }
    assert_eq!(tasks(&retry_all(&world.store, &failed).await), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_stops_counting_and_says_where() {
    let world = World::new().await;
    let session = world.session_with(|new| new.max_queued = Some(100_000)).await;
    world.spawn_queued(session, 6_000, &queued()).await;
    let hasty = world.store.with_search_time(Duration::ZERO);
    let counted = hasty.count_matching(BulkAction::Cancel, &filter(|_| ()), None).await.unwrap();
    assert_eq!((counted.tasks, counted.next_cursor.is_some()), (2000, true));
    let counted = to_the_end(&hasty, Step::CountCancels, &filter(|_| ()), None).await;
    assert_eq!(tasks(&counted), 6000);
}
