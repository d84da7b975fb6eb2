//! Metrics and the dashboard.

use adjutant_store::NewKey;

use crate::support::test_server::TestServer;
use crate::support::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn the_metrics_show_the_state_of_the_fleet() {
    let world = World::new().await;
    let server = TestServer::on(&world);
    let session = world.session().await;
    world.spawn(session, 3).await;
    let worker = world.worker().await;
    let running = worker.claim(1).await.unwrap().remove(0);
    world.store.set_cap(7).await.unwrap();
    let answer = server.request("GET", "/metrics", &[], "").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    for line in [
        "adjutant_cap 7",
        "adjutant_unfinished_tasks 3",
        "adjutant_queued_tasks 2",
        "adjutant_ready_tasks{pool=\"default\"} 2",
        "adjutant_running_tasks{pool=\"default\"} 1",
        "adjutant_workers{pool=\"default\"} 1",
    ] {
        assert!(
            answer.text.lines().any(|written| written == line),
            "{line} is not in\n{}",
            answer.text
        );
    }
    assert!(answer.text.contains("adjutant_oldest_ready_seconds{pool=\"default\"} "));
    running.lease.complete("done".to_owned(), None).write().await.unwrap();
    let text = server.request("GET", "/metrics", &[], "").await.text;
    assert!(text.contains("adjutant_running_tasks{pool=\"default\"} 0"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_metrics_of_all_tenants_are_for_admins() {
    let world = World::new().await;
    let server = TestServer::on(&world);
    let key = async |scope: &str| {
        let (tenant, name) = ("a".to_owned(), scope.to_owned());
        let key = NewKey {
            tenant,
            name,
            scopes: vec![scope.to_owned()],
            expires_at: None,
            ..NewKey::default()
        };
        format!("Authorization: Bearer {}", world.store.create_key(&key).await.unwrap().1)
    };
    let (reader, admin) = (key("read").await, key("admin").await);
    server.request("GET", "/metrics", &[], "").await.refused(401, "UNAUTHENTICATED");
    server.request("GET", "/metrics", &[&reader], "").await.refused(403, "FORBIDDEN");
    assert_eq!(server.request("GET", "/metrics", &[&admin], "").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_dashboard_needs_no_key_and_loads_nothing_from_elsewhere() {
    let world = World::new().await;
    let server = TestServer::on(&world);
    let page = server.request("GET", "/", &[], "").await;
    assert_eq!(page.status, 200);
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    let policy = page.header("content-security-policy").unwrap();
    assert!(
        policy.starts_with("default-src 'none'") && policy.contains("connect-src 'self'"),
        "{policy}"
    );
    assert!(page.text.contains("<title>Adjutant</title>"));
    assert!(!page.text.contains("://") && !page.text.contains("innerHTML"));
}
