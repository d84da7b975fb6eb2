//! Keys of the API and the limits of tenants.

use adjutant_agent::{ErrorCode, SessionId};
use adjutant_store::{
    IdempotencyKey, NewKey, NewSession, NewTask, NewWorker, Store, TenantLimits, TenantUsage,
};
use chrono::{TimeDelta, Utc};
use uuid::Uuid;

use crate::support::world::{World, assert_refused, queued, race, task};

fn new_key(tenant: &str) -> NewKey {
    NewKey {
        tenant: tenant.to_owned(),
        name: "laptop".to_owned(),
        scopes: vec!["delegate".to_owned(), "read".to_owned()],
        expires_at: None,
        ..NewKey::default()
    }
}

async fn sql(world: &World, statement: &'static str) {
    sqlx::query(statement).execute(&world.sql).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_finds_its_key_and_nothing_else_does() {
    let world = World::new().await;
    assert!(!world.store.has_keys().await.unwrap());
    let (made, secret) = world.store.create_key(&new_key("a")).await.unwrap();
    let (_, other) = world.store.create_key(&new_key("b")).await.unwrap();
    assert!(world.store.has_keys().await.unwrap());
    assert!(
        secret.starts_with("adj_") && secret.len() == 4 + 64 && secret != other,
        "32 random bytes"
    );
    let found = world.store.key(&secret).await.unwrap().unwrap();
    assert_eq!((found.id, found.tenant.as_str()), (made.id, "a"));
    assert_eq!(found.scopes, ["delegate", "read"]);
    let digest = format!("adj_{}", "0".repeat(64));
    for wrong in ["", "adj_", &secret[..67], &format!("{secret}0"), &secret.to_uppercase(), &digest]
    {
        assert_eq!(world.store.key(wrong).await.unwrap(), None, "{wrong}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_part_of_a_secret_is_stored() {
    let world = World::new().await;
    let (_, secret) = world.store.create_key(&new_key("a")).await.unwrap();
    let row: String = sqlx::query_scalar("select to_jsonb(k)::text from api_key k")
        .fetch_one(&world.sql)
        .await
        .unwrap();
    assert!(!row.contains(&secret[4..20]) && !row.contains(&secret[52..]), "{row}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_or_expired_key_is_refused() {
    let world = World::new().await;
    let (revoked, one) = world.store.create_key(&new_key("a")).await.unwrap();
    let soon = NewKey { expires_at: Some(Utc::now() + TimeDelta::hours(1)), ..new_key("a") };
    let (_, two) = world.store.create_key(&soon).await.unwrap();
    assert!(world.store.key(&two).await.unwrap().is_some());
    sql(
        &world,
        "update api_key set expires_at = now() - interval '1 second' where expires_at is not null",
    )
    .await;
    assert_eq!(world.store.key(&two).await.unwrap(), None);
    let at = world.store.revoke_key(revoked.id).await.unwrap().revoked_at.unwrap();
    assert_eq!(world.store.key(&one).await.unwrap(), None);
    assert_eq!(
        world.store.revoke_key(revoked.id).await.unwrap().revoked_at,
        Some(at),
        "twice is once"
    );
    assert!(world.store.has_keys().await.unwrap(), "losing the last key does not open the door");
    assert_refused(world.store.revoke_key(Uuid::now_v7()).await, ErrorCode::KeyNotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn last_use_is_recorded_once_a_minute_without_waiting() {
    let world = World::new().await;
    let (key, secret) = world.store.create_key(&new_key("a")).await.unwrap();
    let last_used = async || world.store.keys(Some("a")).await.unwrap()[0].last_used_at;
    assert_eq!(last_used().await, None);
    let held = world.hold(&format!("select from api_key where id = '{}' for update", key.id)).await;
    assert!(
        world.store.key(&secret).await.unwrap().is_some(),
        "whoever has the row is not waited for"
    );
    held.rollback().await.unwrap();
    world.store.key(&secret).await.unwrap();
    let first = last_used().await.unwrap();
    world.store.key(&secret).await.unwrap();
    assert_eq!(last_used().await, Some(first));
    sql(&world, "update api_key set last_used_at = now() - interval '61 seconds'").await;
    world.store.key(&secret).await.unwrap();
    assert!(last_used().await.unwrap() >= first);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_listed_by_tenant() {
    let world = World::new().await;
    for tenant in ["a", "b", "a"] {
        world.store.create_key(&new_key(tenant)).await.unwrap();
    }
    let tenants = async |tenant| {
        let keys = world.store.keys(tenant).await.unwrap();
        keys.into_iter().map(|key| key.tenant).collect::<Vec<_>>()
    };
    assert_eq!(tenants(None).await, ["a", "b", "a"]);
    assert_eq!(tenants(Some("b")).await, ["b"]);
    assert_eq!(tenants(Some("c")).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_key_definition_is_refused_by_field() {
    let world = World::new().await;
    let changes = [
        ((|key| key.tenant.clear()) as fn(&mut NewKey), "tenant"),
        (|key| key.name.clear(), "name"),
        (|key| key.name.push('\0'), "name"),
        (|key| key.scopes.clear(), "scopes"),
        (|key| key.scopes.push("root".to_owned()), "scopes"),
        (|key| key.expires_at = Some(Utc::now() - TimeDelta::seconds(1)), "expires_at"),
    ];
    for (change, field) in changes {
        let mut key = new_key("a");
        change(&mut key);
        let message =
            assert_refused(world.store.create_key(&key).await, ErrorCode::InvalidArgument);
        assert!(message.starts_with(field), "{message}");
    }
    assert!(!world.store.has_keys().await.unwrap());
}

fn named(tenant: &str, name: &str) -> NewSession {
    NewSession { tenant: tenant.to_owned(), name: name.to_owned(), ..NewSession::default() }
}

fn active(limit: i64) -> TenantLimits {
    TenantLimits { max_active: Some(limit), ..TenantLimits::default() }
}

fn in_all(limit: i64) -> TenantLimits {
    TenantLimits { max_queued: Some(limit), ..TenantLimits::default() }
}

async fn spawn_in(
    store: &Store,
    session: SessionId,
    tasks: &[NewTask],
) -> Result<(), adjutant_store::Error> {
    store.spawn(session, tasks, None).await.map(|_| ())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenants_session_limit_ignores_archived_sessions() {
    let world = World::new().await;
    let store =
        world.store.with_limits(TenantLimits { max_sessions: Some(2), ..TenantLimits::default() });
    let first = store.create_session(&named("a", "one")).await.unwrap();
    store.create_session(&named("a", "two")).await.unwrap();
    assert_refused(
        store.create_session(&named("a", "three")).await,
        ErrorCode::MaxSessionsExceeded,
    );
    assert_refused(store.create_session(&named("a", "two")).await, ErrorCode::SessionAlreadyExists);
    store.create_session(&named("b", "one")).await.unwrap();
    store.archive_session(first.id).await.unwrap();
    store.create_session(&named("a", "three")).await.unwrap();
    world.store.create_session(&named("a", "four")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spawn_that_waits_for_another_of_its_tenant_counts_its_task() {
    let world = World::new().await;
    let limits = TenantLimits { max_active: Some(1), ..TenantLimits::default() };
    let store = world.store.with_limits(limits);
    let (one, other) = (world.session().await, world.session().await);
    let in_flight = world.hold_spawn(one, "{}", "array[1, null]").await;
    let second = tokio::spawn(async move { spawn_in(&store, other, &[task()]).await });
    world.until_blocked(1).await;
    in_flight.commit().await.unwrap();
    assert_refused(second.await.unwrap(), ErrorCode::MaxTasksExceeded);
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_calls_respect_a_tenants_limits() {
    let world = World::with_connections(24).await;
    let limits = TenantLimits { max_sessions: Some(8), max_active: Some(5), max_queued: Some(9) };
    let store = world.store.with_limits(limits);
    let racers = (0..20).map(|n| {
        let store = store.clone();
        async move { store.create_session(&named("a", &n.to_string())).await }
    });
    let made: Vec<_> = race(racers.collect()).await.into_iter().flatten().collect();
    assert_eq!(made.len(), 8);
    let spawn = async |task: NewTask| {
        let racers = (0..24).map(|n| {
            let (store, task, session) = (store.clone(), task.clone(), made[n % made.len()].id);
            async move { spawn_in(&store, session, &[task]).await.is_ok() }
        });
        race(racers.collect()).await.into_iter().filter(|made| *made).count()
    };
    assert_eq!(spawn(task()).await, 5);
    assert_eq!(spawn(queued()).await, 4);
    let usage = world.store.tenant_usage("a").await.unwrap();
    assert_eq!(usage, TenantUsage { sessions: 8, active: 9, queued: 9 });
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenants_limits_do_not_depend_on_others() {
    let world = World::new().await;
    let mine = world.session_with(|session| session.tenant = "mine".to_owned()).await;
    let theirs = world.session_with(|session| session.tenant = "theirs".to_owned()).await;
    world.spawn(theirs, 5).await;
    spawn_in(&world.store.with_limits(active(2)), mine, &[task(), task()]).await.unwrap();
    let refused = spawn_in(&world.store.with_limits(active(2)), mine, &[task()]).await;
    assert!(assert_refused(refused, ErrorCode::MaxTasksExceeded).contains("over 2"));
    spawn_in(&world.store.with_limits(active(2)), mine, &[queued()]).await.unwrap();
    let refused = spawn_in(&world.store.with_limits(in_all(4)), mine, &[queued(), queued()]).await;
    assert_refused(refused, ErrorCode::MaxTasksExceeded);
    assert_eq!(world.store.tenant_usage("mine").await.unwrap().queued, 3, "all or none");
    world.drain(&world.worker().await).await;
    assert_eq!(
        world.store.tenant_usage("mine").await.unwrap(),
        TenantUsage { sessions: 1, active: 0, queued: 0 }
    );
    spawn_in(&world.store.with_limits(active(2)), mine, &[task()]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idempotent_answer_is_repeated_to_a_full_tenant() {
    let world = World::new().await;
    let session = world.session().await;
    let store = world.store.with_limits(active(1));
    let key = IdempotencyKey { key: "key", body: b"body" };
    let first = store.spawn(session, &[task()], Some(key)).await.unwrap();
    world.spawn(session, 2).await;
    assert_eq!(store.spawn(session, &[task()], Some(key)).await.unwrap(), first);
    assert_refused(store.spawn(session, &[task()], None).await, ErrorCode::MaxTasksExceeded);
}

#[tokio::test(flavor = "multi_thread")]
async fn children_are_never_refused_by_a_tenants_limits() {
    let world = World::new().await;
    let session = world.session().await;
    let store = world.store.with_limits(in_all(1));
    store.spawn(session, &[task()], None).await.unwrap();
    let worker = store
        .register(&NewWorker { name: "limited".to_owned(), ..NewWorker::default() })
        .await
        .unwrap();
    let claim = world.claim_one(&worker).await;
    claim.lease.spawn(&[task(), task()], None).await.unwrap();
    assert_eq!(
        world.store.tenant_usage("tenant").await.unwrap(),
        TenantUsage { sessions: 1, active: 1, queued: 3 }
    );
}
