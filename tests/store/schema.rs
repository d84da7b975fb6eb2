//! The schema: made by `migrate`, and refused by whoever it does not fit.

use adjutant_store::{Error, SchemaMismatch, Store};
use sqlx::{Connection, Executor, PgConnection, SqlSafeStr};

use crate::support::world::World;

async fn misfit(url: &str) -> String {
    match Store::open(url, 1).await {
        Err(Error::Schema(misfit)) => misfit.to_string(),
        other => panic!("expected a misfit, got {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_database_is_refused_until_it_is_migrated() {
    let url = World::empty_database().await;
    assert!(misfit(&url).await.contains("`adjutant migrate`"));
    let first = Store::migrate(&url).await.unwrap();
    assert_eq!(first.from, 0);
    assert_eq!(Store::migrate(&url).await.unwrap().from, first.to, "twice is harmless");
    Store::open(&url, 1).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn migrating_twice_at_once_is_harmless() {
    let url = World::empty_database().await;
    let migrations: Vec<_> = (0..4)
        .map(|_| {
            let url = url.clone();
            tokio::spawn(async move { Store::migrate(&url).await })
        })
        .collect();
    for migration in migrations {
        migration.await.unwrap().unwrap();
    }
    Store::open(&url, 1).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_schema_is_refused_and_migrate_is_named() {
    let world = World::new().await;
    let forget =
        "delete from _sqlx_migrations where version = (select max(version) from _sqlx_migrations)";
    sqlx::query(forget).execute(&world.sql).await.unwrap();
    let message = misfit(world.url()).await;
    assert!(message.contains("run `adjutant migrate`"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_schema_is_fine_until_it_says_otherwise() {
    let world = World::new().await;
    let newer =
        "insert into _sqlx_migrations (version, description, success, checksum, execution_time)
        values (9999, 'from the future', true, '', 0)";
    sqlx::query(newer).execute(&world.sql).await.unwrap();
    Store::open(world.url(), 1).await.unwrap();
    Store::migrate(world.url()).await.unwrap();
    sqlx::query("update schema_fit set oldest_release = 9999").execute(&world.sql).await.unwrap();
    let message = misfit(world.url()).await;
    assert!(message.contains("install the release"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_or_altered_migration_is_named() {
    let world = World::new().await;
    sqlx::query("update _sqlx_migrations set success = false where version = 3")
        .execute(&world.sql)
        .await
        .unwrap();
    assert!(misfit(world.url()).await.contains("migration 3 was interrupted"));
    let alter = "update _sqlx_migrations set success = true, checksum = '\\x00' where version = 3";
    sqlx::query(alter).execute(&world.sql).await.unwrap();
    let answer = Store::migrate(world.url()).await;
    assert!(matches!(answer, Err(Error::Schema(SchemaMismatch::Altered(3)))), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_with_another_isolation_is_refused() {
    let world = World::new().await;
    sqlx::raw_sql(
        "do $$ begin
            execute format('alter database %I set default_transaction_isolation = serializable', current_database());
        end $$",
    )
    .execute(&world.sql)
    .await
    .unwrap();
    let message = misfit(world.url()).await;
    assert!(message.contains("serializable") && message.contains("alter database"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_something_else_is_left_alone() {
    for table in ["create table session (id int)", "create table _sqlx_migrations (
        version bigint, description text, installed_on timestamptz, success bool, checksum bytea, execution_time bigint
    ); insert into _sqlx_migrations values (1, 'theirs', now(), true, '', 0)"] {
        let url = World::empty_database().await;
        let mut theirs = PgConnection::connect(&url).await.unwrap();
        sqlx::raw_sql(table).execute(&mut theirs).await.unwrap();
        let answer = Store::migrate(&url).await;
        assert!(matches!(answer, Err(Error::Schema(SchemaMismatch::NotOurs))), "{answer:?}");
        let tables: i64 = sqlx::query_scalar("select count(*) from pg_tables where schemaname = 'public'")
            .fetch_one(&mut theirs)
            .await
            .unwrap();
        assert_eq!(tables, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_never_wait_for_a_reader() {
    let world = World::new().await;
    sqlx::raw_sql(
        "do $$ declare last text; begin
        select max(relname) into last from pg_class where relname like 'turn\\_2%' and relkind = 'r';
        execute format('drop table %I', last);
    end $$",
    )
    .execute(&world.sql)
    .await
    .unwrap();
    let reader = world.hold("lock table turn_default in access share mode").await;
    world.store.run_maintenance().await.unwrap();
    let weeks = "select count(*) from pg_inherits where inhparent = 'turn'::regclass";
    assert_eq!(world.count(weeks).await, 6, "not made, and not waited for");
    reader.rollback().await.unwrap();
    world.store.run_maintenance().await.unwrap();
    assert_eq!(world.count(weeks).await, 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn history_is_never_refused_for_want_of_a_partition() {
    let world = World::new().await;
    sqlx::raw_sql(
        "insert into event (session, seq, task, kind, at)
         values (1, 1, gen_random_uuid(), 'spawned', now() + interval '3 years')",
    )
    .execute(&world.sql)
    .await
    .unwrap();
    assert_eq!(world.count("select count(*) from event_default").await, 1);
    world.store.run_maintenance().await.unwrap();
    let ahead =
        world.count("select count(*) from pg_inherits where inhparent = 'turn'::regclass").await;
    assert_eq!(ahead, 7, "this week, five ahead, and the default");
}

/// Queries are checked at compile time against committed data; here the data is checked against the
/// real schema.
#[tokio::test(flavor = "multi_thread")]
async fn the_committed_query_data_is_what_the_database_says() {
    let world = World::new().await;
    let mut queries = 0;
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.sqlx")).unwrap() {
        let path = entry.unwrap().path();
        let committed: serde_json::Value =
            serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let query = committed["query"].as_str().unwrap().to_owned();
        let described =
            (&world.sql).describe(sqlx::AssertSqlSafe(query).into_sql_str()).await.unwrap();
        let described = serde_json::to_value(&described).unwrap();
        for part in ["columns", "parameters", "nullable"] {
            assert_eq!(
                committed["describe"][part],
                described[part],
                "{}: run `make sqlx`",
                path.display()
            );
        }
        queries += 1;
    }
    assert!(queries > 20, "{queries}");
}
