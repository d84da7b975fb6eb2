//! The deletion of a session with many tasks, by workers that go on with other sessions' tasks and
//! die on the way.

use adjutant_agent::SessionId;
use serde_json::{Value, json};

use crate::cli::client_commands::adjutant;
use crate::faults::verdict::Sampler;
use crate::support::fleet::{CLERK, Fleet, to};
use crate::support::load::simulation;
use crate::support::test_server::TestServer;
use crate::support::worker_process::WorkerProcess;
use crate::support::world::{World, until};
use adjutant_script::{Fault, Script, When, fault};

/// What `adjutant doctor` finds about deletions.
fn deletions(world: &World) -> String {
    let folder = tempfile::tempdir().unwrap();
    let line = ["doctor", "--json", "--database-url", world.url()];
    let mut doctor = adjutant("http://127.0.0.1:1", &line);
    let output = doctor.current_dir(folder.path()).output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut checks = found["checks"].as_array().unwrap().iter();
    let check = checks.find(|check| check["check"] == "deletions").unwrap();
    check["found"].as_str().unwrap().to_owned()
}

async fn open(server: &TestServer, name: &str) {
    server.post("/v1/sessions", &json!({"session_id": name}).to_string()).await.ok(201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_survives_its_worker_while_the_fleet_goes_on() {
    let world = World::new().await;
    world.store.set_cap(7).await.unwrap();
    let server = TestServer::on(&world);
    let session = world
        .session_with_completed(20_000, |new| {
            (new.tenant, new.name) = ("default".to_owned(), "large".to_owned());
        })
        .await;
    // Two hundred of them have not ended.
    world.spawn_queued(session, 200, &simulation(json!({"then": "hang"}))).await;
    let mut doomed = WorkerProcess::with_fault(world.url(), "deleted_batch:kill:3");
    until("its tasks run", async || holds(&world, session).await).await;
    assert_eq!(deletions(&world), "no deleted session has rows left");

    assert_eq!(server.delete("/v1/sessions/large").await.status, 204);
    assert!(!holds(&world, session).await, "its leases are taken away at once");
    server.get("/v1/sessions/large").await.refused(404, "SESSION_NOT_FOUND");
    open(&server, "large").await;
    let sampler = Sampler::start(&world);
    let tasks = world.spawn_many(60, &simulation(json!({"turns": 2, "turn_ms": 10}))).await;
    doomed.killed_itself().await;
    let left = world.store.deletions_left().await.unwrap();
    assert_eq!(left.sessions, 1);
    assert!((1..20_200).contains(&left.tasks), "{left:?}");
    let found = deletions(&world);
    assert!(found.contains(&format!("{} tasks", left.tasks)), "{found}");

    let _next = WorkerProcess::on(world.url());
    until("nothing is left", async || world.store.deletions_left().await.unwrap().sessions == 0)
        .await;
    assert_eq!(world.tables_with_rows_of(session).await, [""; 0]);
    world.all_complete_once(&tasks, 2, sampler).await;
    server.get("/v1/sessions/large").await.ok(200);
}

async fn holds(world: &World, session: SessionId) -> bool {
    sqlx::query_scalar("select exists (select from slot where session = $1)")
        .bind(session.0)
        .fetch_one(&world.sql)
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_a_session_aborts_its_model_calls_within_a_second() {
    let script = Script::new().on(When::assignment("Hang")).then(fault(Fault::HangBeforeHeaders));
    let fleet = Fleet::new(script).await;
    let _worker = fleet.worker();
    let session = fleet.session("openai").await;
    fleet.delegate(session, to(CLERK, "Hang.")).await;
    fleet.model.wait_for_requests(1).await;
    let began = std::time::Instant::now();
    fleet.world.store.delete_session(session).await.unwrap();
    until("the model has seen it hang up", async || fleet.model.request_counts().hung_up == 1)
        .await;
    assert!(began.elapsed().as_millis() < 1000, "after {:?}", began.elapsed());
    until("nothing is left", async || {
        fleet.world.store.deletions_left().await.unwrap().sessions == 0
    })
    .await;
    fleet.close().await;
}
