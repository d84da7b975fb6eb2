//! The views that docs/sql.md describes, and the role of those who may only read them.

use std::time::Duration;

use adjutant_agent::{FailureKind, ToolResult};
use sqlx::AssertSqlSafe;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{Connection as _, Row as _};

use crate::support::world::{World, queued, turn};

const PAGE: &str = include_str!("../../docs/sql.md");

/// The questions of the page with their queries.
fn questions() -> Vec<(&'static str, &'static str)> {
    let sections = PAGE.split("\n### ").skip(1);
    sections
        .map(|section| {
            let question = section.lines().next().unwrap();
            let (_, query) = section.split_once("```sql\n").expect(question);
            (question, query.split_once("```").expect(question).0)
        })
        .collect()
}

/// Tasks that completed, failed, were cancelled, lost their worker and were given back, one that
/// runs and one that waits in the queue, with turns and a tool call.
async fn a_varied_history(world: &World) {
    world.store.set_cap(6).await.unwrap();
    let session = world
        .session_with(|session| {
            session.tenant = "default".to_owned();
            session.name = "default".to_owned();
            session.max_active = Some(10);
        })
        .await;
    let worker = world.steady_worker().await;
    world.spawn(session, 7).await;
    let mut claims = worker.claim(6).await.unwrap();
    for claim in &mut claims {
        claim.lease.checkpoint(&turn("So far.")).await.unwrap();
    }
    let mut leases = claims.into_iter().map(|claim| claim.lease);
    let mut next = || leases.next().unwrap();
    let first = next();
    for (call, is_error) in [("a", false), ("b", true)] {
        let content = format!("result of {call}");
        let result = ToolResult { call: call.to_owned(), content, is_error, duration_ms: 7 };
        first.tool_result(Some("fetch"), &result).await.unwrap();
    }
    first.complete("done".to_owned(), None).write().await.unwrap();
    next().fail(FailureKind::Tool, "step 7 broke".to_owned(), None).write().await.unwrap();
    world.store.cancel(next().task()).await.unwrap();
    world.expire(next().id()).await;
    worker.sweep(Duration::ZERO).await.unwrap();
    next().release().write().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_question_of_the_page_has_an_answer() {
    let world = World::new().await;
    a_varied_history(&world).await;
    let questions = questions();
    assert!(questions.len() >= 20, "{} questions", questions.len());
    let mut empty = Vec::new();
    for (question, query) in questions {
        let rows = sqlx::raw_sql(AssertSqlSafe(query)).fetch_all(&world.sql).await;
        match rows {
            Ok(rows) if rows.is_empty() => empty.push(question),
            Ok(_) => {}
            Err(error) => panic!("{question} {error}"),
        }
    }
    // The history has no tree, no retry and no budget.
    assert_eq!(
        empty,
        [
            "Which sessions have used most of their budget?",
            "What did retries cost, on top of what they repeat?",
            "What does a whole tree of tasks cost?",
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn all_views_have_the_same_sums() {
    let world = World::new().await;
    a_varied_history(&world).await;
    let worker = world.steady_worker().await;
    let holder = world.count("select count(*) from slot where task is not null").await;
    assert_eq!(holder, 1, "one task still runs");
    sqlx::raw_sql("update slot set expires_at = now() - interval '1 hour' where task is not null")
        .execute(&world.sql)
        .await
        .unwrap();
    worker.sweep(Duration::ZERO).await.unwrap();
    world.drain(&worker).await;
    for folded in [false, true] {
        if folded {
            world.store.fold_usage().await.unwrap();
        }
        let sums = "select array[sum(input_tokens), sum(output_tokens), round(sum(cost_usd) * 1000000000)]::bigint[]";
        let mut found = Vec::new();
        for view in [
            "turn_history",
            "task_history",
            "tenant_usage",
            "agent_stats",
            "model_stats",
            "session_cost",
        ] {
            let row = sqlx::raw_sql(AssertSqlSafe(format!("{sums} from {view}")))
                .fetch_one(&world.sql)
                .await
                .unwrap();
            found.push((view, row.get::<Vec<i64>, _>(0)));
        }
        let expected = found[0].1.clone();
        assert!(expected.iter().all(|sum| *sum > 0), "{expected:?}");
        for (view, sums) in found {
            assert_eq!(sums, expected, "{view}, folded: {folded}");
        }
        let counts = "select count(*) from agent_stats
            where (spawned, completed, failed, cancelled, lost_attempts) = (7, 5, 1, 1, 2)";
        assert_eq!(world.count(counts).await, 1);
    }
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demand_counts_what_may_run_within_the_caps_and_what_runs() {
    let world = World::new().await;
    world.store.set_cap(4).await.unwrap();
    let demand = async || {
        sqlx::query_as::<_, (String, i64, i64, i64)>(
            "select pool, runnable, running, demand from worker_demand order by pool",
        )
        .fetch_all(&world.sql)
        .await
        .unwrap()
    };
    let pool = |name: &str, runnable, running, demand| (name.to_owned(), runnable, running, demand);
    assert_eq!(demand().await, [pool("default", 0, 0, 0)], "there is always a row to scale by");
    let session = world.session().await;
    world.spawn(session, 3).await;
    let gpu = adjutant_store::NewTask { pool: "gpu".to_owned(), ..queued() };
    world.spawn_one(session, gpu).await;
    let worker = world.worker().await;
    let running = world.claim_one(&worker).await;
    assert_eq!(demand().await, [pool("default", 2, 1, 3), pool("gpu", 1, 0, 1)]);
    crate::store::fairness::limit(&world, "tenant", Some(2)).await;
    assert_eq!(demand().await[0], pool("default", 1, 1, 2), "the tenant may run one more");
    crate::store::fairness::limit(&world, "tenant", None).await;
    sqlx::raw_sql("update task set model = 'closed'").execute(&world.sql).await.unwrap();
    sqlx::raw_sql(
        "insert into model_gate (model, closed_until) values ('closed', now() + interval '1 hour')",
    )
    .execute(&world.sql)
    .await
    .unwrap();
    assert_eq!(demand().await[0], pool("default", 0, 1, 1), "what a gate holds back needs nobody");
    sqlx::raw_sql("delete from model_gate").execute(&world.sql).await.unwrap();
    world.spawn(world.session().await, 5).await;
    assert_eq!(demand().await[0].3, 4, "never more than the cap");
    running.lease.complete("done".to_owned(), None).write().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_reads_the_views_and_nothing_else() {
    let world = World::new().await;
    a_varied_history(&world).await;
    let options: PgConnectOptions = world.url().parse().unwrap();
    let mut reader = PgConnection::connect_with(&options).await.unwrap();
    sqlx::raw_sql("set role adjutant_read").execute(&mut reader).await.unwrap();
    for (question, query) in questions() {
        let answer = sqlx::raw_sql(AssertSqlSafe(query)).fetch_all(&mut reader).await;
        assert!(answer.is_ok(), "{question} {answer:?}");
    }
    for refused in [
        "select * from api_key",
        "select * from webhook_secret",
        "select * from task",
        "delete from task",
    ] {
        let answer = sqlx::raw_sql(AssertSqlSafe(refused)).execute(&mut reader).await;
        let error = answer.expect_err(refused).to_string();
        assert!(error.contains("permission denied"), "{refused}: {error}");
    }
}
