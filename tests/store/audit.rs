//! The audit: each change by a caller has a row, written in its transaction.

use std::sync::Arc;
use std::time::Duration;

use adjutant_agent::{ErrorCode, TaskId, TaskNumber};
use adjutant_store::{
    Actor, ActorSource, AuditEntry, AuditFilter, IdempotencyKey, NewKey, NewTask, SecretFrom,
    Store, TenantChange,
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::world::{World, assert_refused, queued};

/// A text that must not be in the audit.
const TEXT: &str = "Find the murderer.";

fn as_key(world: &World, tenant: &str) -> Store {
    let actor = Actor {
        tenant: Some(tenant.to_owned()),
        key: Some(Uuid::from_u128(7)),
        name: "laptop".to_owned(),
        address: Some("203.0.113.9".parse().unwrap()),
        ..Actor::default()
    };
    world.store.acting_for(Arc::new(actor))
}

async fn entries(world: &World) -> Vec<AuditEntry> {
    world.store.audit(&AuditFilter::default(), 100).await.unwrap()
}

/// The only entry since the last call, without its time.
async fn only(world: &World) -> AuditEntry {
    let mut all = entries(world).await;
    assert_eq!(all.len(), 1, "{all:#?}");
    sqlx::query("delete from audit").execute(&world.sql).await.unwrap();
    all.remove(0)
}

fn new_key() -> NewKey {
    NewKey {
        tenant: "tenant".to_owned(),
        name: "ci".to_owned(),
        scopes: vec!["read".to_owned()],
        ..NewKey::default()
    }
}

fn secret_task() -> NewTask {
    NewTask { assignment: TEXT.to_owned(), label: Some(TEXT.to_owned()), ..queued() }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_action_has_a_row_that_says_who_did_what_before_and_after() {
    let world = World::new().await;
    let store = as_key(&world, "tenant");
    let session = world.session_with(|session| session.name = "s".to_owned()).await;
    let tasks = [
        world.spawn_one(session, secret_task()).await,
        world.spawn_one(session, secret_task()).await,
    ];

    store.cancel(tasks[0].id).await.unwrap();
    let entry = only(&world).await;
    assert_eq!(entry.action, "task.cancel");
    assert_eq!(entry.subject, tasks[0].id.to_string());
    assert_eq!(entry.before, Some(json!({"session": "s", "task_id": "t_01", "state": "queued"})));
    assert_eq!(entry.after, Some(json!({"state": "cancelled", "cancelled": 1})));
    assert_eq!(
        (entry.source.as_str(), entry.actor.as_str(), entry.key, entry.tenant.as_deref()),
        ("api", "laptop", Some(Uuid::from_u128(7)), Some("tenant"))
    );
    assert_eq!(entry.actor_tenant.as_deref(), Some("tenant"));
    assert_eq!(entry.address.as_deref(), Some("203.0.113.9"));

    let _claim = world.claim_one(&world.worker().await).await;
    store.cancel_by_number(session, TaskNumber(2)).await.unwrap();
    let entry = only(&world).await;
    assert_eq!(entry.subject, tasks[1].id.to_string());
    assert_eq!(entry.before.unwrap()["state"], "running");

    let key = IdempotencyKey { key: "k", body: b"retry" };
    let retry = store.retry_task("tenant", tasks[0].id, Some(key)).await.unwrap();
    let entry = only(&world).await;
    assert_eq!((entry.action.as_str(), entry.subject), ("task.retry", tasks[0].id.to_string()));
    assert_eq!(entry.before.unwrap()["state"], "cancelled");
    assert_eq!(entry.after, Some(json!({"task": retry.id.to_string(), "task_id": "t_03"})));

    store.archive_session(session).await.unwrap();
    let entry = only(&world).await;
    assert_eq!((entry.action.as_str(), entry.subject.as_str()), ("session.archive", "s"));
    assert_eq!(entry.before, Some(json!({"archived": false})));
    store.delete_session(session).await.unwrap();
    let entry = only(&world).await;
    assert_eq!((entry.action.as_str(), entry.subject.as_str()), ("session.delete", "s"));
    assert_eq!(entry.before, Some(json!({"tasks": 3, "archived": true})));
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_secrets_and_the_cap_are_audited_without_their_secrets() {
    let world = World::new().await;
    let store = as_key(&world, "tenant");
    let (made, secret) = store.create_key(&new_key()).await.unwrap();
    let entry = only(&world).await;
    assert_eq!((entry.action.as_str(), entry.subject), ("key.create", made.id.to_string()));
    assert_eq!(entry.after.unwrap()["scopes"], json!(["read"]));
    store.revoke_key(made.id).await.unwrap();
    let entry = only(&world).await;
    assert_eq!(entry.action, "key.revoke");
    assert_eq!(entry.before, Some(json!({"name": "ci", "revoked": false})));

    let random = SecretFrom::Random;
    let rotate =
        async || store.rotate_webhook_secret("tenant", random, Duration::from_secs(60)).await;
    let (first, first_value) = rotate().await.unwrap();
    assert_eq!(only(&world).await.before, Some(json!({"secrets": []})));
    let (second, value) = rotate().await.unwrap();
    let entry = only(&world).await;
    assert_eq!(
        (entry.action.as_str(), entry.subject),
        ("webhook_secret.rotate", second.id.to_string())
    );
    assert_eq!(entry.before, Some(json!({"secrets": [first.id]})));
    let shown = format!("{:?}", entry.after);
    for hidden in [&secret, &first_value.unwrap(), &value.unwrap()] {
        assert!(!shown.contains(hidden.as_str()));
    }
    store.revoke_webhook_secret("tenant", second.id).await.unwrap();
    assert_eq!(only(&world).await.action, "webhook_secret.revoke");

    store.archive_tenant("tenant").await.unwrap();
    let entry = only(&world).await;
    assert_eq!((entry.action.as_str(), entry.subject.as_str()), ("tenant.archive", "tenant"));
    assert_eq!(entry.before, Some(json!({"archived": false})));
    store.unarchive_tenant("tenant").await.unwrap();
    assert_eq!(only(&world).await.action, "tenant.unarchive");

    store.set_tenant("tenant", TenantChange { weight: Some(2), cap: None }).await.unwrap();
    let entry = only(&world).await;
    assert_eq!((entry.action.as_str(), entry.subject.as_str()), ("tenant.set", "tenant"));
    assert_eq!(entry.before, Some(json!({"weight": 1, "cap": null})));
    assert_eq!(entry.after, Some(json!({"weight": 2, "cap": null})));

    world.store.set_cap(3).await.unwrap();
    store.set_cap(5).await.unwrap();
    let entry = only(&world).await;
    assert_eq!((entry.action.as_str(), entry.tenant), ("limits.cap", None));
    assert_eq!((entry.before, entry.after), (Some(json!({"cap": 3})), Some(json!({"cap": 5}))));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changes_nothing_has_no_row_and_no_row_has_a_text() {
    let world = World::new().await;
    let store = as_key(&world, "tenant");
    let session = world.session().await;
    let task = world.spawn_one(session, secret_task()).await;
    store.cancel(task.id).await.unwrap();
    store.cancel(task.id).await.unwrap();
    store.cancel_by_number(session, task.number).await.unwrap();
    let key = || Some(IdempotencyKey { key: "k", body: b"retry" });
    for _ in 0..2 {
        store.retry_task("tenant", task.id, key()).await.unwrap();
        store.archive_session(session).await.unwrap();
    }
    assert_refused(store.cancel(TaskId::new()).await, ErrorCode::TaskNotFound);
    assert_refused(store.cancel_by_number(session, TaskNumber(9)).await, ErrorCode::TaskNotFound);
    assert_refused(store.revoke_key(Uuid::nil()).await, ErrorCode::KeyNotFound);
    let all = entries(&world).await;
    let actions: Vec<&str> = all.iter().map(|entry| entry.action.as_str()).collect();
    assert_eq!(actions, ["session.archive", "task.retry", "task.cancel"]);
    let text: String = sqlx::query_scalar("select string_agg(a::text, ' ') from audit a")
        .fetch_one(&world.sql)
        .await
        .unwrap();
    assert!(!text.contains("murderer"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_and_spawns_are_not_audited() {
    let world = World::new().await;
    let session = world.session().await;
    let store = as_key(&world, "tenant");
    let parent = store.spawn(session, &[secret_task()], None).await.unwrap();
    let claim = world.claim_one(&world.worker().await).await;
    let child = claim.lease.spawn(&[secret_task()], None).await.unwrap();
    claim.lease.cancel_child(child[0].number).await.unwrap();
    world.store.cancel(parent[0].id).await.unwrap();
    assert_eq!(entries(&world).await, []);
}

/// The row is written in the transaction of the change: if it cannot be written, nothing changes.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_without_its_row_cannot_exist() {
    let world = World::new().await;
    let store = as_key(&world, "tenant");
    let session = world.session().await;
    let task = world.spawn_one(session, secret_task()).await;
    let ended = world.spawn_one(session, secret_task()).await;
    world.store.cancel(ended.id).await.unwrap();
    world.store.set_cap(3).await.unwrap();
    let key = world.store.create_key(&new_key()).await.unwrap().0;
    let secret = world
        .store
        .rotate_webhook_secret("tenant", SecretFrom::Random, Duration::ZERO)
        .await
        .unwrap()
        .0;
    sqlx::raw_sql(
        "create function killed() returns trigger language plpgsql as $$ begin raise exception 'killed'; end $$;
         create trigger killed before insert on audit for each row execute function killed()",
    )
    .execute(&world.sql)
    .await
    .unwrap();
    let state = async || -> Value {
        sqlx::query_scalar(
            "select jsonb_build_object(
                 'tasks', (select jsonb_agg(to_jsonb(t) order by t.number) from task t),
                 'sessions', (select jsonb_agg(to_jsonb(s)) from session s),
                 'keys', (select jsonb_agg(to_jsonb(k)) from api_key k),
                 'secrets', (select jsonb_agg(to_jsonb(w)) from webhook_secret w),
                 'tenants', (select jsonb_agg(to_jsonb(n)) from tenant n),
                 'slots', (select jsonb_agg(to_jsonb(x) order by x.n) from slot x)
             )",
        )
        .fetch_one(&world.sql)
        .await
        .unwrap()
    };
    let before = state().await;
    assert!(store.cancel(task.id).await.is_err());
    assert!(store.cancel_by_number(session, task.number).await.is_err());
    assert!(store.retry_task("tenant", ended.id, None).await.is_err());
    assert!(store.archive_session(session).await.is_err());
    assert!(store.delete_session(session).await.is_err());
    assert!(store.set_cap(9).await.is_err());
    assert!(store.archive_tenant("tenant").await.is_err());
    assert!(store.create_key(&new_key()).await.is_err());
    assert!(store.revoke_key(key.id).await.is_err());
    let rotated = store.rotate_webhook_secret("tenant", SecretFrom::Random, Duration::ZERO);
    assert!(rotated.await.is_err());
    assert!(store.revoke_webhook_secret("tenant", secret.id).await.is_err());
    assert_eq!(state().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cap_says_what_it_has_replaced_even_if_two_are_set_at_once() {
    let world = World::new().await;
    world.store.set_cap(3).await.unwrap();
    let held = world.hold("select set_cap_1(4)").await;
    let setting = tokio::spawn({
        let store = as_key(&world, "tenant");
        async move { store.set_cap(5).await }
    });
    world.until_blocked(1).await;
    held.commit().await.unwrap();
    setting.await.unwrap().unwrap();
    assert_eq!(only(&world).await.before, Some(json!({"cap": 4})));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_is_filtered_and_paged_from_the_newest_on() {
    let world = World::new().await;
    for tenant in ["a", "b"] {
        for _ in 0..3 {
            let session = world.session_with(|session| session.tenant = tenant.to_owned()).await;
            as_key(&world, tenant).archive_session(session).await.unwrap();
        }
    }
    let cli = Actor { source: ActorSource::Cli, name: "ada".to_owned(), ..Actor::default() };
    world.store.acting_for(Arc::new(cli)).set_cap(2).await.unwrap();
    let find = async |filter: AuditFilter| world.store.audit(&filter, 100).await.unwrap();
    let all = find(AuditFilter::default()).await;
    assert_eq!(all.len(), 7);
    assert!(all.is_sorted_by_key(|entry| -entry.id), "the newest first");
    assert_eq!((all[0].source.as_str(), all[0].actor.as_str()), ("cli", "ada"));
    let of_a = AuditFilter { tenant: Some("a".to_owned()), ..AuditFilter::default() };
    let found = find(of_a.clone()).await;
    assert_eq!(found.len(), 3);
    let next = find(AuditFilter { before: Some(found[0].id), ..of_a }).await;
    assert_eq!(next, found[1..]);
    let caps = AuditFilter { action: Some("limits.cap".to_owned()), ..AuditFilter::default() };
    assert_eq!(find(caps).await.len(), 1);
    let later = AuditFilter {
        since: Some(chrono::Utc::now() + chrono::TimeDelta::hours(1)),
        ..AuditFilter::default()
    };
    assert_eq!(find(later).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_the_audit_are_deleted_after_400_days() {
    let world = World::new().await;
    sqlx::query(
        "insert into audit (at, action, subject, source, actor)
         select now() - n * interval '1 day', 'limits.cap', 'fleet', 'cli', 'ada' from generate_series(2400, 1, -1) n",
    )
    .execute(&world.sql)
    .await
    .unwrap();
    world.store.run_maintenance().await.unwrap();
    assert_eq!(world.count("select count(*) from audit").await, 399);
}
