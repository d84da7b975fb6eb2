//! Several configs on one database: their agents, and the cap.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;
use tempfile::TempDir;

use crate::cli::client_commands::{adjutant, stdout};
use crate::support::process::{Process, assert_says, refused, succeed};
use crate::support::test_server::{TestServer, serve};
use crate::support::world::{World, until};

/// A config with a model and an agent of this name.
fn config(more: &str, agent: &str) -> String {
    format!(
        "{more}\n[models.main]\nwire = 'openai'\n[agents.{agent}]\ndescription = 'd'\nsystem_prompt = 'You are {agent}.'\n"
    )
}

async fn agents(server: &TestServer) -> Result<Vec<String>> {
    server.post("/v1/sessions", r#"{"session_id": "s"}"#).await;
    let answer = server.post("/v1/sessions/s/tools/subagent", r#"{"action": "list_agents"}"#).await;
    let agents = answer.json()["agents"].as_array().context("no agents")?.clone();
    Ok(agents.iter().filter_map(|agent| Some(agent["name"].as_str()?.to_owned())).collect())
}

fn doctor(world: &World) -> Result<String> {
    let folder = TempDir::new()?;
    let mut command =
        adjutant("http://127.0.0.1:1", &["doctor", "--database-url", world.url(), "--json"]);
    let output = command.current_dir(folder.path()).output()?;
    let found: Value = serde_json::from_slice(&output.stdout)?;
    let checks = found["checks"].as_array().context("no checks")?.iter();
    let of_agents = checks.filter(|check| check["check"] == "agents");
    Ok(of_agents.map(|check| format!("{} {}\n", check["verdict"], check["found"])).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_with_another_config_takes_no_agents_away_and_doctor_shows_who_has_which()
-> Result<()> {
    let world = World::new().await;
    let first = TestServer::of(&world, &config("", "clerk"));
    let second = TestServer::of(&world, &config("", "scribe"));
    let _without = TestServer::of(&world, "[models.main]\nwire = 'openai'\n");
    assert_eq!(agents(&first).await?, ["clerk", "scribe"]);
    let shop = TestServer::of(&world, &config("name = 'shop'", "cashier"));
    assert_eq!(agents(&second).await?, ["cashier", "clerk", "scribe"]);
    let pid = format!("/{}", shop.pid());
    assert_says(
        &doctor(&world)?,
        &[
            "default\\\": 2 agents (clerk, scribe), published by 2 processes",
            "shop\\\": 1 agent (cashier), published by process",
            &pid,
            "last seen",
        ],
    );

    shop.stop()?;
    assert_eq!(agents(&first).await?, ["cashier", "clerk", "scribe"], "its tasks wait");
    assert_says(&doctor(&world)?, &["published by no process that runs now"]);
    second.stop()?;
    assert_eq!(agents(&first).await?, ["cashier", "clerk"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_config_with_an_agent_of_the_same_name_is_refused_with_both_names() -> Result<()> {
    let world = World::new().await;
    let folder = TempDir::new()?;
    let path = folder.path().join("bank.toml");
    fs::write(&path, config("name = 'bank'", "clerk"))?;
    let shop = TestServer::of(&world, &config("name = 'shop'", "clerk"));
    let said = refused(serve(world.url()).arg("--config").arg(&path))?;
    assert_says(&said, &["clerk", "\"bank\"", "\"shop\"", "rename one", "same name"]);
    fs::write(&path, config("name = 'shop'", "clerk").replace("You are", "You were"))?;
    let deployed = Process::start(serve(world.url()).arg("--config").arg(&path))?;
    assert_says(&doctor(&world)?, &["different definitions of clerk; the newest is in effect"]);
    shop.stop()?;
    deployed.stop()
}

/// `adjutant` in a folder whose config has this cap.
fn with_cap(folder: &TempDir, cap: i32, line: &[&str]) -> Result<Command> {
    let path = folder.path().join("adjutant.toml");
    fs::write(&path, format!("[limits]\ncap = {cap}\n"))?;
    let mut command = adjutant("http://127.0.0.1:1", line);
    command.arg("--config").arg(path);
    Ok(command)
}

fn cap(url: &str) -> Result<String> {
    let limits = succeed(&mut adjutant("", &["limits", "--database-url", url]))?;
    Ok(stdout(&limits).trim_end().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_command_with_a_cap_sets_it_and_later_ones_warn() -> Result<()> {
    let folder = TempDir::new()?;
    let url = World::empty_database().await;
    let database = ["--database-url", &url];
    succeed(&mut adjutant("", &[&["migrate"], &database[..]].concat()))?;
    assert_eq!(cap(&url)?, "cap 5, 0 running");
    let listen = ["--listen", "127.0.0.1:0"];
    let serving = [&["serve"], &listen[..], &database[..]].concat();
    Process::start(&mut with_cap(&folder, 9, &serving)?)?.stop()?;
    assert_eq!(cap(&url)?, "cap 9, 0 running", "a server may be the first");

    let working = [&["work"], &database[..]].concat();
    let worker = Process::start(&mut with_cap(&folder, 3, &working)?)?;
    worker.until_logged("adjutant limits --cap 3").await;
    assert_eq!(worker.stderr().matches("limits.cap is 3").count(), 1);
    worker.stop()?;
    assert_eq!(cap(&url)?, "cap 9, 0 running");
    let check = [&["config", "check", "--connect"], &database[..]].concat();
    let checked = with_cap(&folder, 3, &check)?.output()?;
    assert!(checked.status.success(), "{checked:?}");
    assert_says(&String::from_utf8(checked.stderr)?, &["limits.cap is 3", "the fleet is 9"]);
    let doctor = with_cap(&folder, 3, &[&["doctor"], &database[..]].concat())?.output()?;
    assert_says(&stdout(&doctor), &["warning", "limits.cap is 3", "adjutant limits --cap 3"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn migrate_applies_the_cap_and_a_person_may_change_it() -> Result<()> {
    let folder = TempDir::new()?;
    let url = World::empty_database().await;
    let migrate = ["migrate", "--database-url", &url];
    let output = succeed(&mut with_cap(&folder, 7, &migrate)?)?;
    assert_says(&String::from_utf8(output.stderr)?, &["the cap is 7 now"]);
    succeed(&mut adjutant("", &["limits", "--cap", "2", "--database-url", &url]))?;
    let output = succeed(&mut with_cap(&folder, 7, &migrate)?)?;
    assert_says(&String::from_utf8(output.stderr)?, &["warning", "limits.cap is 7", "is 2"]);
    assert_eq!(cap(&url)?, "cap 2, 0 running");
    fs::write(folder.path().join("broken.toml"), "[limits]\ncapp = 1\n")?;
    let broken = folder.path().join("broken.toml");
    let mut migrate = adjutant("", &migrate);
    let output = succeed(migrate.arg("--config").arg(broken))?;
    assert_says(&String::from_utf8(output.stderr)?, &["limits.cap is not applied", "config check"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_a_running_config_loses_is_gone_and_others_stay() -> Result<()> {
    let world = World::new().await;
    let folder = TempDir::new()?;
    let path = folder.path().join("adjutant.toml");
    fs::write(&path, config("", "clerk"))?;
    let other = TestServer::of(&world, &config("", "scribe"));
    let _running = Process::start(serve(world.url()).arg("--config").arg(&path))?;
    assert_eq!(agents(&other).await?, ["clerk", "scribe"]);
    fs::write(&path, "[models.main]\nwire = 'openai'\n")?;
    until("the agent is gone", async || agents(&other).await.unwrap() == ["scribe"]).await;
    Ok(())
}
