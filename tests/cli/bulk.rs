//! `adjutant tasks cancel` and `adjutant tasks retry` with a filter, and long searches, against a
//! server.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

use adjutant_agent::SessionId;
use anyhow::Result;
use serde_json::{Value, json};

use crate::cli::client_commands::{adjutant, code, says, stderr, stdout};
use crate::support::canned_server::{CannedServer, Reply};
use crate::support::process::{assert_says, signal};
use crate::support::test_server::TestServer;
use crate::support::world::{World, queued, until};

fn command(server: &TestServer, line: &[&str]) -> Command {
    adjutant(&format!("http://{}", server.address), line)
}

/// Waits for the output of a command without blocking the runtime of the test.
async fn output(child: Child) -> Result<Output> {
    Ok(tokio::task::spawn_blocking(move || child.wait_with_output()).await??)
}

fn started(command: &mut Command) -> Result<Child> {
    Ok(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?)
}

async fn session(world: &World, tasks: usize) -> SessionId {
    let session = world
        .session_with(|new| {
            (new.tenant, new.max_queued) = ("default".to_owned(), Some(10_000));
        })
        .await;
    world.spawn_queued(session, tasks, &queued()).await;
    session
}

/// A server with 500 tasks. The command stops in its second batch, until this transaction ends.
async fn half_way(
    world: &World,
    server: &TestServer,
) -> Result<(Child, sqlx::Transaction<'static, sqlx::Postgres>)> {
    let first = session(world, 300).await;
    session(world, 200).await;
    let held = world.hold(&format!("select from session where id = {} for update", first.0)).await;
    let child = started(&mut command(server, &["tasks", "cancel", "--state", "queued"]))?;
    world.until_blocked(1).await;
    assert_eq!(world.count(CANCELLED).await, 200, "the first batch is done");
    Ok((child, held))
}

const CANCELLED: &str = "select count(*) from task where state = 'cancelled'";
const EVENTS: &str = "select count(*) from event where kind = 'cancelled'";

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_is_counted_then_cancelled_and_then_retried() -> Result<()> {
    let world = World::new().await;
    let server = TestServer::on(&world);
    session(&world, 450).await;
    let line = ["tasks", "cancel", "--state", "queued", "--agent", "tester"];
    let counted = command(&server, &[&line[..], &["--dry-run"]].concat()).output()?;
    assert_eq!(stdout(&counted), "450 tasks would be cancelled, with everything below them\n");
    assert_eq!(world.count(CANCELLED).await, 0);
    let done = command(&server, &line).output()?;
    assert_eq!(
        (code(&done), stdout(&done).as_str()),
        (Some(0), "450 tasks cancelled\n"),
        "{done:?}"
    );
    let again = command(&server, &[&line[..], &["--json"]].concat()).output()?;
    let expected = json!({
        "dry_run": false, "tasks": 0, "below": 0, "skipped": {}, "next_cursor": null, "searched_until": null,
    });
    assert_eq!(serde_json::from_str::<Value>(&stdout(&again))?, expected);

    let retry = ["tasks", "retry", "--state", "cancelled", "--since", "1h"];
    let counted = command(&server, &[&retry[..], &["--dry-run"]].concat()).output()?;
    assert_eq!(stdout(&counted), "450 tasks would be retried\n");
    let retried = command(&server, &retry).output()?;
    assert_eq!(stdout(&retried), "450 tasks retried\n", "{retried:?}");
    let again = command(&server, &retry).output()?;
    assert_eq!(stdout(&again), "0 tasks retried, 450 left alone (already retried)\n");
    world.assert_sound().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_killed_command_the_same_command_goes_on() -> Result<()> {
    let world = World::new().await;
    let server = TestServer::on(&world);
    let (mut child, held) = half_way(&world, &server).await?;
    child.kill()?;
    child.wait()?;
    held.commit().await?;
    let second = started(&mut command(&server, &["tasks", "cancel", "--state", "queued"]))?;
    let second = output(second).await?;
    assert_eq!(code(&second), Some(0), "{second:?}");
    until("all are cancelled", async || world.count(CANCELLED).await == 500).await;
    assert_eq!(world.count(EVENTS).await, 500, "each once");
    world.assert_sound().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_command_ends_its_batch_and_says_how_to_continue() -> Result<()> {
    let world = World::new().await;
    let server = TestServer::on(&world);
    let (mut child, held) = half_way(&world, &server).await?;
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    signal("INT", child.id())?;
    assert_eq!(said.next().unwrap()?, "adjutant: stopping after this batch");
    held.commit().await?;
    let stopped = output(child).await?;
    assert_eq!(code(&stopped), Some(130), "{stopped:?}");
    assert_eq!(stdout(&stopped), "400 tasks cancelled\n");
    let said = said.collect::<std::io::Result<Vec<String>>>()?.join("\n");
    assert_says(&said, &["stopped; the same command goes on", "--cursor "]);
    assert_eq!(world.count(CANCELLED).await, 400);
    let cursor = said.trim_end().rsplit(' ').next().unwrap();
    let line = ["tasks", "cancel", "--state", "queued", "--cursor", cursor];
    let rest = command(&server, &line).output()?;
    assert_eq!(stdout(&rest), "100 tasks cancelled\n", "{rest:?}");
    assert_eq!(world.count(EVENTS).await, 500, "each once");
    Ok(())
}

#[test]
fn a_bulk_command_without_a_filter_needs_to_say_all() -> Result<()> {
    for line in [&["tasks", "cancel"][..], &["tasks", "retry", "--dry-run"]] {
        let server = CannedServer::new([]);
        let output = adjutant(&server.url(), line).output()?;
        assert_eq!(code(&output), Some(2), "{output:?}");
        assert_says(&stderr(&output), &["filter", "--all"]);
        server.assert_requests(&[]);
    }
    let server = CannedServer::new([]);
    let both =
        adjutant(&server.url(), &["tasks", "retry", "t_01", "--state", "failed"]).output()?;
    assert_eq!(code(&both), Some(2), "an id and a filter: {both:?}");
    let done = says(
        200,
        json!({"dry_run": false, "tasks": 2, "below": 1, "skipped": {"changed": 1}, "next_cursor": null}),
    );
    let server = CannedServer::new([done]);
    let output = adjutant(&server.url(), &["tasks", "cancel", "--all"]).output()?;
    assert_eq!(stdout(&output), "2 tasks cancelled, and 1 below them, 1 left alone (changed)\n");
    let requests = server.assert_requests(&["POST /v1/tasks/cancel"]);
    assert_eq!(requests[0].body, json!({"all": true}));
    Ok(())
}

#[test]
fn a_batch_whose_answer_is_lost_is_sent_again() -> Result<()> {
    let batch = |next: Value| {
        says(
            200,
            json!({"dry_run": false, "tasks": 1, "below": 0, "skipped": {}, "next_cursor": next}),
        )
    };
    let server = CannedServer::new([batch(json!("c")), Reply::CutOff, batch(Value::Null)]);
    let output = adjutant(&server.url(), &["tasks", "cancel", "--agent", "a"]).output()?;
    assert_eq!((code(&output), stdout(&output).as_str()), (Some(0), "2 tasks cancelled\n"));
    let bodies: Vec<Value> = server.requests().into_iter().map(|request| request.body).collect();
    let filter = json!({"filter": {"agent": "a"}});
    let next = json!({"filter": {"agent": "a"}, "cursor": "c"});
    assert_eq!(bodies, [filter, next.clone(), next]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_search_goes_on_until_it_has_found_what_there_is() -> Result<()> {
    let world = World::new().await;
    world.old_tasks("default", 45_000, "needle").await;
    let server = TestServer::with(&world, "[server]\nsearch_ms = 1\n");
    let first = server.get("/v1/tasks?q=needle").await.ok(200);
    assert_eq!((&first["tasks"], &first["stopped_early"]), (&json!([]), &json!(true)));
    assert!(first["searched_until"].as_str().is_some_and(|until| until.ends_with('Z')), "{first}");
    let found = command(&server, &["tasks", "-q", "needle"]).output()?;
    assert_says(&stdout(&found), &["t_01", "needle"]);
    assert_eq!(stderr(&found), "", "no progress without a terminal");
    let nothing = command(&server, &["tasks", "-q", "no such label"]).output()?;
    assert_says(&stderr(&nothing), &["no tasks found"]);
    // `script` gives the command a terminal.
    let line = format!(
        "{} tasks -q needle --url http://{}",
        env!("CARGO_BIN_EXE_adjutant"),
        server.address
    );
    let shown = Command::new("script").args(["-qec", &line, "/dev/null"]).output()?;
    assert_says(&stdout(&shown), &["searched back to ", "0 found", "needle"]);
    Ok(())
}
